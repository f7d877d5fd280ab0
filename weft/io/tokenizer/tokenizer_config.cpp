#include "weft/io/tokenizer/tokenizer_config.h"

#include <filesystem>

#include "weft/io/is_there.h"
#include "weft/io/json.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// A token is given by its spelling, or as an object with the spelling as `content`.
std::optional<std::string> token(const JsonNode& root, const char* key) {
  const auto node = root.find(key);
  if (!node) return std::nullopt;
  return node->value().is_object() ? node->at("content").text() : node->text();
}

std::optional<bool> flag(const JsonNode& root, const char* key) {
  const auto node = root.find(key);
  return node ? std::optional(node->boolean()) : std::nullopt;
}

// A token that tokenizer_config.json does not name. Both files may name it, if they agree; an empty name is none.
void fill(std::optional<std::string>& known, const JsonNode& root, const char* key, const std::string& config_file) {
  const auto named = token(root, key);
  if (known && named && !known->empty() && !named->empty() && *known != *named)
    root.at(key).refuse("names the token '", shown(*named), "', but ", config_file, " names '", shown(*known), "'");
  if (!known) known = named;
}

// Ids are keys: {"32000": {"content": "<|end|>", "lstrip": false, ...}}.
std::vector<ConfiguredToken> added_tokens(const JsonNode& root) {
  constexpr size_t kMostDigits = 9;
  std::vector<ConfiguredToken> tokens;
  const auto list = root.find("added_tokens_decoder");
  if (!list) return tokens;
  for (const auto& [id, node] : list->members()) {
    if (id.empty() || id.size() > kMostDigits || id.find_first_not_of("0123456789") != id.npos)
      list->refuse("has the key '", shown(id), "', expected the id of a token");
    const bool special = node.boolean_or("special", false);
    tokens.push_back({.id = int32_t(std::stol(id)),
                      .content = node.at("content").text(),
                      .single_word = node.boolean_or("single_word", false),
                      .lstrip = node.boolean_or("lstrip", false),
                      .rstrip = node.boolean_or("rstrip", false),
                      .normalized = node.boolean_or("normalized", !special),
                      .special = special});
  }
  return tokens;
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& folder) {
  TokenizerConfig config;
  const fs::path at(folder);
  if (const fs::path path = at / "tokenizer_config.json"; is_there(path)) {
    const Json document = read_json(path.string());
    const JsonNode root = JsonNode(path.string(), document).object();
    config.file = path.string();
    config.added_tokens = added_tokens(root);
    config.bos_token = token(root, "bos_token");
    config.eos_token = token(root, "eos_token");
    config.pad_token = token(root, "pad_token");
    config.add_bos = flag(root, "add_bos_token");
    config.add_eos = flag(root, "add_eos_token");
    config.chat_template = root.find("chat_template").has_value();
  }
  if (const fs::path path = at / "special_tokens_map.json"; is_there(path)) {
    const Json document = read_json(path.string());
    const JsonNode root = JsonNode(path.string(), document).object();
    fill(config.bos_token, root, "bos_token", config.file);
    fill(config.eos_token, root, "eos_token", config.file);
    if (!config.pad_token) config.pad_token = token(root, "pad_token");
  }
  config.chat_template |= is_there(at / "chat_template.jinja") || is_there(at / "chat_template.json");
  return config;
}

}  // namespace weft
