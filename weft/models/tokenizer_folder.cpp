#include "weft/models/tokenizer_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "weft/base/check.h"
#include "weft/chat/template_files.h"
#include "weft/io/checksum.h"
#include "weft/io/gguf.h"
#include "weft/io/is_there.h"
#include "weft/io/json.h"
#include "weft/io/mapped_file.h"
#include "weft/models/gguf_tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerJson = "tokenizer.json";

std::string tokenizer_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / kTokenizerJson).string() : path;
}

fs::path folder_of(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

// Drops ids that have no token.
SpecialIds known_ids(SpecialIds ids, const Tokenizer& tokenizer) {
  const auto unknown = [&](int64_t id) { return id >= tokenizer.vocab_size() || tokenizer.token_of(int32_t(id)).empty(); };
  std::erase_if(ids.eos_ids, unknown);
  if (ids.bos_id && unknown(*ids.bos_id)) ids.bos_id.reset();
  if (ids.pad_id && unknown(*ids.pad_id)) ids.pad_id.reset();
  if (ids.eos_ids.empty() && tokenizer.eos_id()) ids.eos_ids = {*tokenizer.eos_id()};
  if (!ids.bos_id) ids.bos_id = tokenizer.bos_id();
  if (!ids.pad_id) ids.pad_id = tokenizer.pad_id();
  return ids;
}

std::shared_ptr<const GgufTokenizer> gguf_of(const std::string& path) {
  return is_gguf(path) ? std::make_shared<const GgufTokenizer>(read_gguf_tokenizer(Gguf(path))) : nullptr;
}

std::string text_of(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

TokenizerFolder::TokenizerFolder(const std::string& path)
    : path_(path),
      file_(tokenizer_file(path)),
      gguf_(gguf_of(path)),
      tokenizer_(gguf_ ? Tokenizer::parse(gguf_->json, path, gguf_->config) : Tokenizer::load(path)),
      special_(known_ids(read_special_ids(gguf_ ? path : folder_of(file_).string()), tokenizer_)) {}

std::string TokenizerFolder::json() const { return gguf_ ? gguf_->json : text_of(file_); }

std::map<std::string, std::string> TokenizerFolder::chat_templates() const {
  if (gguf_) return gguf_->templates;
  std::map<std::string, std::string> templates;
  for (const chat::TemplateText& text : chat::read_templates(folder_of(file_).string())) templates[text.name] = text.text;
  return templates;
}

std::optional<ChatFormat> TokenizerFolder::chat_format(const std::string& name) const {
  if (gguf_) return ChatFormat::of(gguf_->templates, gguf_->special, path_, name);
  return ChatFormat::load(folder_of(file_).string(), name);
}

std::map<std::string, std::string> TokenizerFolder::special_tokens() const {
  return gguf_ ? gguf_->special : ChatFormat::read_special_tokens(folder_of(file_).string());
}

std::optional<int32_t> TokenizerFolder::separator() const {
  if (tokenizer_.eos_id()) return tokenizer_.eos_id();
  return special_.eos_ids.empty() ? std::nullopt : std::optional(int32_t(special_.eos_ids[0]));
}

uint64_t TokenizerFolder::hash() const {
  const std::string text = json();
  uint64_t hash = xxh64(std::as_bytes(std::span(text)));
  for (const auto around : {tokenizer_.before(), tokenizer_.after()}) hash = xxh64(std::as_bytes(around), hash);
  if (gguf_) return hash;
  // Tokens that tokenizer_config.json adds.
  for (const ConfiguredToken& token : read_tokenizer_config(folder_of(file_).string()).added_tokens) {
    const int32_t numbers[] = {token.id, token.single_word, token.lstrip, token.rstrip, token.normalized, token.special};
    hash = xxh64(std::as_bytes(std::span(numbers)), xxh64(std::as_bytes(std::span(token.content)), hash));
  }
  return hash;
}

bool has_tokenizer(const std::string& folder) {
  return is_gguf(folder) ? has_gguf_tokenizer(Gguf(folder)) : is_there(fs::path(folder) / kTokenizerJson);
}

std::string read_tokenizer_config_json(const std::string& path) {
  if (is_gguf(path)) return read_gguf_tokenizer(Gguf(path)).config_json;
  const fs::path folder = folder_of(tokenizer_file(path));
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    if (is_there(folder / name)) {
      const MappedFile file((folder / name).string());
      const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
      const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
      if (!json.is_object()) fail(ErrorCode::bad_file, (folder / name).string(), "is not a JSON object");
      for (const auto& [key, value] : json.items())
        if (!all.contains(key)) all[key] = value;
    }
  return all.dump(2);
}

}  // namespace weft
