#include "weft/models/tokenizer_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "weft/base/check.h"
#include "weft/io/atomic_files.h"
#include "weft/io/gguf.h"
#include "weft/io/is_there.h"
#include "weft/io/json.h"
#include "weft/io/mapped_file.h"
#include "weft/io/recognise.h"
#include "weft/models/gguf_tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char *kTokenizerJson = "tokenizer.json", *kTokenizerConfig = "tokenizer_config.json",
                     *kChatTemplate = "chat_template.jinja", *kNamedTemplates = "additional_chat_templates";
constexpr const char* kFiles[] = {kTokenizerJson, kTokenizerConfig, "special_tokens_map.json", "added_tokens.json", "vocab.json",
                                  "merges.txt",   kChatTemplate,    "chat_template.json"};

std::string named_template(const std::string& file) { return join(kNamedTemplates, "/", file); }

// The names of the files in the folder of named chat templates.
std::vector<std::string> named_templates(const fs::path& folder) {
  std::error_code ignored;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / kNamedTemplates, ignored))
    if (entry.path().extension() == ".jinja") found.push_back(entry.path().filename().string());
  return found;
}

std::string text_of(const fs::path& path) {
  const MappedFile file(path.string());
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  refuse_other_formats(path.string(), text);
  return text;
}

// Checks the name of a template, which comes from the GGUF file and becomes the name of a file.
void check_template_name(const std::string& name, const std::string& path) {
  const bool plain = !name.empty() && name[0] != '.' &&
                     std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
  if (!plain) fail(ErrorCode::bad_file, path, "has a chat template named '", shown(name), "', expected letters, digits, '_', '-' and '.'");
}

TokenizerFiles read_gguf_files(const std::string& path) {
  const Gguf gguf(path);
  if (!has_gguf_tokenizer(gguf)) return {};
  const GgufTokenizer from = read_gguf_tokenizer(gguf);
  const auto own = from.templates.find("default");
  TokenizerFiles files = tokenizer_files(from.json, from.config_json, own == from.templates.end() ? "" : own->second);
  for (const auto& [name, text] : from.templates) {
    check_template_name(name, path);
    if (name != "default") files[named_template(name + ".jinja")] = text;
  }
  return files;
}

}  // namespace

TokenizerFiles tokenizer_files(const std::string& tokenizer_json, const std::string& tokenizer_config_json,
                               const std::string& chat_template) {
  TokenizerFiles files{{kTokenizerJson, tokenizer_json}, {kTokenizerConfig, tokenizer_config_json}};
  if (!chat_template.empty()) files[kChatTemplate] = chat_template;
  return files;
}

TokenizerFiles read_tokenizer_files(const std::string& path) {
  if (is_gguf(path)) return read_gguf_files(path);
  std::error_code ignored;
  const bool whole = fs::is_directory(path, ignored);
  const fs::path folder = whole ? fs::path(path) : fs::path(path).parent_path();
  TokenizerFiles files;
  for (const char* name : kFiles) {
    const fs::path file = name == kTokenizerJson && !whole ? fs::path(path) : folder / name;
    if (is_there(file)) files[name] = text_of(file);
  }
  for (const std::string& name : named_templates(folder)) files[named_template(name)] = text_of(folder / kNamedTemplates / name);
  return files;
}

void add_tokenizer(const TokenizerFiles& files, const std::string& folder, AtomicFiles& to) {
  for (const auto& [name, text] : files) to.add(fs::path(folder) / name, text);
}

void remove_other_tokenizer(const TokenizerFiles& files, const std::string& folder) {
  std::error_code ignored;
  const fs::path from(folder);
  for (const char* name : kFiles)
    if (!files.contains(name)) fs::remove(from / name, ignored);
  bool removed = false;
  for (const std::string& name : named_templates(from))
    if (!files.contains(named_template(name))) removed |= fs::remove(from / kNamedTemplates / name, ignored);
  if (removed) fs::remove(from / kNamedTemplates, ignored);  // fails, as it should, if it has other files
}

void write_tokenizer(const TokenizerFiles& files, const std::string& folder) {
  AtomicFiles to;
  add_tokenizer(files, folder, to);
  to.commit();
  remove_other_tokenizer(files, folder);
}

}  // namespace weft
