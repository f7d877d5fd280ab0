// The files of a tokenizer, read from a folder or a GGUF file and written into another folder.
#pragma once

#include <map>
#include <string>

namespace weft {

class AtomicFiles;

// Contents by path within the folder: "tokenizer.json", "additional_chat_templates/rag.jinja".
using TokenizerFiles = std::map<std::string, std::string>;

// The files of the tokenizer at `path` (a folder, a tokenizer.json or a GGUF file); empty: there is none. Throws bad_file, naming it, for
// one that is not what its name says, such as a Git LFS pointer.
TokenizerFiles read_tokenizer_files(const std::string& path);
// Those of a tokenizer given as text, with a chat template unless that is empty.
TokenizerFiles tokenizer_files(const std::string& tokenizer_json, const std::string& tokenizer_config_json,
                               const std::string& chat_template = "");

// Writes them into `folder`, all or none, and removes the files of any other tokenizer from it.
void write_tokenizer(const TokenizerFiles& files, const std::string& folder);

// The two steps of write_tokenizer, for an export that commits other files with them: the removal follows the commit.
void add_tokenizer(const TokenizerFiles& files, const std::string& folder, AtomicFiles& to);
void remove_other_tokenizer(const TokenizerFiles& files, const std::string& folder);

}  // namespace weft
