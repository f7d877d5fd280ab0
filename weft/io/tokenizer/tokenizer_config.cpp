#include "weft/io/tokenizer/tokenizer_config.h"

#include <filesystem>

#include "weft/io/json.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

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

void read_tokens(const JsonNode& root, TokenizerConfig& config) {
  if (!config.bos_token) config.bos_token = token(root, "bos_token");
  if (!config.eos_token) config.eos_token = token(root, "eos_token");
  if (!config.pad_token) config.pad_token = token(root, "pad_token");
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& folder) {
  TokenizerConfig config;
  const fs::path at(folder);
  if (const fs::path path = at / "tokenizer_config.json"; there(path)) {
    const Json document = read_json(path.string());
    const JsonNode root = JsonNode(path.string(), document).object();
    read_tokens(root, config);
    config.add_bos = flag(root, "add_bos_token");
    config.add_eos = flag(root, "add_eos_token");
    config.chat_template = root.find("chat_template").has_value();
  }
  if (const fs::path path = at / "special_tokens_map.json"; there(path)) {
    const Json document = read_json(path.string());
    read_tokens(JsonNode(path.string(), document).object(), config);
  }
  config.chat_template |= there(at / "chat_template.jinja") || there(at / "chat_template.json");
  return config;
}

}  // namespace weft
