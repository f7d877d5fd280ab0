// The chat templates and special tokens that the files of a model folder name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::chat {

struct TemplateText {
  std::string name;  // "default" for a template that has none
  std::string text;
  std::string where;  // file, and the place in it, for messages
};

// Sorted by name; empty: the folder has none.
std::vector<TemplateText> read_templates(const std::string& folder);

// bos_token, eos_token ... as the variables of templates: every member *_token of tokenizer_config.json that names a token, the members of
// extra_special_tokens if it is an object, and what special_tokens_map.json adds.
std::map<std::string, std::string> read_special_tokens(const std::string& folder);

}  // namespace weft::chat
