#include "weft/train/conversations.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "weft/base/check.h"
#include "weft/chat/chat_format.h"
#include "weft/data/chat_template.h"
#include "weft/io/checksum.h"
#include "weft/io/mapped_file.h"
#include "weft/train/setup.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The folder of the tokenizer, "" without one.
std::string tokenizer_folder(const TrainConfig& c) {
  if (c.tokenizer.empty()) return is_folder(c.model) ? c.model : "";
  if (fs::is_directory(c.tokenizer)) return c.tokenizer;
  const fs::path folder = fs::path(c.tokenizer).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Of the files that a template may come from.
uint64_t hash_of_templates(const std::string& folder) {
  std::vector<fs::path> files;
  for (const char* name : {"chat_template.jinja", "chat_template.json", "special_tokens_map.json", "tokenizer_config.json"})
    files.push_back(fs::path(folder) / name);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(folder) / "additional_chat_templates", ignored))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  uint64_t hash = 0;
  for (const fs::path& file : files)
    if (fs::exists(file, ignored)) hash = xxh64(MappedFile(file.string()).bytes(), hash + 1);
  return hash;
}

// Throws with `where` if there is no template.
ChatFormat format_in(const std::string& folder, const std::string& where, const char* what) {
  auto format = folder.empty() ? std::nullopt : ChatFormat::load(folder);
  if (!format)
    fail(ErrorCode::bad_file, where, what,
         folder.empty() ? "there is no chat template to render it with" : folder + " has no chat template",
         "; pass --chat-template chatml");
  return *std::move(format);
}

ConversationReader reader_of(ChatFormat format, uint64_t identity) {
  return {[format = std::move(format)](std::string_view json, const std::string& where) {
            try {
              return format.render(Conversation::parse(json, where), false);
            } catch (const Error& error) {
              if (std::string_view(error.what()).starts_with(where)) throw;
              fail(error.code(), where, error.what());
            }
          },
          identity};
}

}  // namespace

ConversationReader conversation_reader(const TrainConfig& config) {
  if (!config.chat_template.empty()) return reader_of(chat_format(config), template_hash(config));
  const std::string folder = tokenizer_folder(config);
  std::shared_ptr<ConversationReader> reader;
  return {[folder, reader](std::string_view json, const std::string& where) mutable {
            if (!reader) reader = std::make_shared<ConversationReader>(reader_of(format_in(folder, where, "is a conversation, but "), 0));
            return reader->render(json, where);
          },
          template_hash(config)};
}

ChatFormat chat_format(const TrainConfig& config) {
  if (config.chat_template.empty()) return format_in(tokenizer_folder(config), config.data, "its conversations cannot be rendered: ");
  return ChatFormat::parse(chat_template(config.chat_template).text, {}, config.chat_template);
}

uint64_t template_hash(const TrainConfig& config) {
  if (!config.chat_template.empty()) return xxh64(std::as_bytes(std::span(chat_template(config.chat_template).text)));
  const std::string folder = tokenizer_folder(config);
  return folder.empty() ? 0 : hash_of_templates(folder);
}

}  // namespace weft
