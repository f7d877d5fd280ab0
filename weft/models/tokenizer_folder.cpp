#include "weft/models/tokenizer_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "weft/base/check.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"
#include "weft/io/is_there.h"
#include "weft/io/mapped_file.h"
#include "weft/io/recognise.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char *kTokenizerJson = "tokenizer.json", *kChatTemplate = "chat_template.jinja",
                     *kNamedTemplates = "additional_chat_templates";
constexpr const char* kFilesBeside[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
                                        kChatTemplate,           "chat_template.json"};

std::string tokenizer_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / kTokenizerJson).string() : path;
}

fs::path folder_of(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path.string());
  file.write(bytes);
  file.commit();
}

void remove_if_there(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

void remove_named_templates(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / kNamedTemplates, ignored))
    if (entry.path().extension() == ".jinja") found.push_back(entry.path());
  for (const fs::path& path : found) remove_if_there(path);
  if (!found.empty()) fs::remove(folder / kNamedTemplates, ignored);  // unless there are others in it
}

void copy_or_remove(const fs::path& from, const fs::path& to) {
  if (!is_there(from)) return remove_if_there(to);
  const MappedFile source(from.string());
  refuse_other_formats(from.string(), {reinterpret_cast<const char*>(source.bytes().data()), source.bytes().size()});
  write_file(to, source.bytes());
}

SpecialIds find_special_ids(const std::string& folder, const Tokenizer& tokenizer) {
  SpecialIds ids = read_special_ids(folder);
  const auto unknown = [&](int64_t id) { return id >= tokenizer.vocab_size() || tokenizer.token_of(int32_t(id)).empty(); };
  std::erase_if(ids.eos_ids, unknown);
  if (ids.bos_id && unknown(*ids.bos_id)) ids.bos_id.reset();
  if (ids.pad_id && unknown(*ids.pad_id)) ids.pad_id.reset();
  if (ids.eos_ids.empty() && tokenizer.eos_id()) ids.eos_ids = {*tokenizer.eos_id()};
  if (!ids.bos_id) ids.bos_id = tokenizer.bos_id();
  if (!ids.pad_id) ids.pad_id = tokenizer.pad_id();
  return ids;
}

}  // namespace

TokenizerFolder::TokenizerFolder(const std::string& path)
    : path_(path),
      file_(tokenizer_file(path)),
      tokenizer_(Tokenizer::load(path)),
      special_(find_special_ids(folder_of(file_).string(), tokenizer_)) {}

std::optional<int32_t> TokenizerFolder::separator() const {
  if (tokenizer_.eos_id()) return tokenizer_.eos_id();
  return special_.eos_ids.empty() ? std::nullopt : std::optional(int32_t(special_.eos_ids[0]));
}

uint64_t TokenizerFolder::hash() const {
  uint64_t hash = xxh64(MappedFile(file_).bytes());
  for (const auto around : {tokenizer_.before(), tokenizer_.after()}) hash = xxh64(std::as_bytes(around), hash);
  // Tokens that tokenizer_config.json adds.
  for (const ConfiguredToken& token : read_tokenizer_config(folder_of(file_).string()).added_tokens) {
    const int32_t numbers[] = {token.id, token.single_word, token.lstrip, token.rstrip, token.normalized, token.special};
    hash = xxh64(std::as_bytes(std::span(numbers)), xxh64(std::as_bytes(std::span(token.content)), hash));
  }
  return hash;
}

bool has_tokenizer(const std::string& folder) { return is_there(fs::path(folder) / kTokenizerJson); }

void copy_tokenizer(const std::string& path, const std::string& folder) {
  const fs::path file(tokenizer_file(path)), to(folder);
  copy_or_remove(file, to / kTokenizerJson);
  for (const char* name : kFilesBeside) copy_or_remove(folder_of(file.string()) / name, to / name);
  remove_named_templates(to);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(file.string()) / kNamedTemplates, ignored)) {
    if (entry.path().extension() != ".jinja") continue;
    fs::create_directories(to / kNamedTemplates, ignored);
    copy_or_remove(entry.path(), to / kNamedTemplates / entry.path().filename());
  }
}

std::string read_tokenizer_config_json(const std::string& path) {
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

void write_tokenizer(const std::string& tokenizer_json, const std::string& tokenizer_config_json, const std::string& folder,
                     const std::string& chat_template) {
  const fs::path to(folder);
  for (const char* name : kFilesBeside) remove_if_there(to / name);
  remove_named_templates(to);
  write_file(to / kTokenizerJson, std::as_bytes(std::span(tokenizer_json)));
  write_file(to / kFilesBeside[0], std::as_bytes(std::span(tokenizer_config_json)));
  if (!chat_template.empty()) write_file(to / kChatTemplate, std::as_bytes(std::span(chat_template)));
}

}  // namespace weft
