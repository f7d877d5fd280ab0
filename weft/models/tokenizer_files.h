// The files of a tokenizer, read from a folder or a GGUF file and written into another folder.
#pragma once

#include <map>
#include <string>

namespace weft {

class AtomicFiles;

// Contents of files by their path in the folder: "tokenizer.json", "additional_chat_templates/rag.jinja".
using TokenizerFiles = std::map<std::string, std::string>;

// The files of the tokenizer at `path` (a folder, a tokenizer.json or a GGUF file); empty if it has none. Throws bad_file with the path of
// a file that has another format, such as a Git LFS pointer.
TokenizerFiles read_tokenizer_files(const std::string& path);
// The files of a tokenizer given as text, with a chat template unless that is empty.
TokenizerFiles tokenizer_files(const std::string& tokenizer_json, const std::string& tokenizer_config_json,
                               const std::string& chat_template = "");

// Writes all files into `folder`, or none on an error, then removes the files of any other tokenizer from it.
void write_tokenizer(const TokenizerFiles& files, const std::string& folder);

// The two steps of write_tokenizer, for callers that commit other files too; call remove_other_tokenizer after the commit.
void add_tokenizer(const TokenizerFiles& files, const std::string& folder, AtomicFiles& to);
void remove_other_tokenizer(const TokenizerFiles& files, const std::string& folder);

}  // namespace weft
