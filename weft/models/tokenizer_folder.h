// The tokenizer of a folder (tokenizer.json, and the files with its special tokens) or of a GGUF file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/chat/chat_format.h"
#include "weft/io/tokenizer/tokenizer.h"
#include "weft/models/config_json.h"

namespace weft {

struct GgufTokenizer;

class TokenizerFolder {
 public:
  // `path`: a folder with a tokenizer.json, a tokenizer.json, or a GGUF file.
  explicit TokenizerFolder(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& file() const { return file_; }  // the tokenizer.json, or the GGUF file
  std::string json() const;                          // the text of the tokenizer.json
  const Tokenizer& tokenizer() const { return tokenizer_; }

  // The tokens that begin, pad and end a text: from generation_config.json, else config.json, else tokenizer_config.json. Ids without
  // a token are left out.
  const SpecialIds& special_ids() const { return special_; }
  std::vector<int32_t> end_ids() const { return {special_.eos_ids.begin(), special_.eos_ids.end()}; }
  // The token between two documents: the tokenizer's eos_token, else the first of end_ids(). nullopt: the files name none.
  std::optional<int32_t> separator() const;

  // The chat templates by name (the unnamed one is "default"), and the format that applies them (ChatFormat::load); nullopt if there are
  // none.
  std::map<std::string, std::string> chat_templates() const;
  std::optional<ChatFormat> chat_format(const std::string& name = "") const;
  // The special tokens as variables of chat templates: bos_token, eos_token, ...
  std::map<std::string, std::string> special_tokens() const;

  // Differs between tokenizers that give different ids.
  uint64_t hash() const;

 private:
  std::string path_, file_;
  std::shared_ptr<const GgufTokenizer> gguf_;  // null for a folder
  Tokenizer tokenizer_;
  SpecialIds special_;
};

// Whether a folder has a tokenizer.json, or a GGUF file has a tokenizer.
bool has_tokenizer(const std::string& folder);

// The tokenizer_config.json beside the tokenizer at `path`, with the members of special_tokens_map.json that it lacks; "{}" without both.
std::string read_tokenizer_config_json(const std::string& path);

}  // namespace weft
