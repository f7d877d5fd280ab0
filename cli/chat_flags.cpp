#include "cli/chat_flags.h"

#include <cctype>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/io/mapped_file.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::vector<Conversation> read_lines(std::string_view text, const std::string& file) {
  std::vector<Conversation> conversations;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") != line.npos) conversations.push_back(Conversation::parse(line, join(file, ":", number)));
  }
  if (conversations.empty()) fail(ErrorCode::bad_file, file, "has no conversation in it");
  return conversations;
}

bool has_lines(const fs::path& path) { return path.extension() == ".jsonl" || path.extension() == ".ndjson"; }

// Whether each line is a JSON document of its own: more than one line, and the first is whole.
bool looks_like_lines(std::string_view text) {
  const size_t end = text.find('\n');
  return end != text.npos && text.find_first_not_of(" \t\r\n", end) != text.npos && nlohmann::json::accept(text.substr(0, end));
}

}  // namespace

void ChatFlags::add_to(CLI::App& command) {
  command.add_option("--template", template_name, "Name of the chat template, if the folder has several (weft inspect lists them)");
  command.add_option("--template-file", template_file, "File with a chat template (Jinja) to use instead of the folder's")
      ->check(CLI::ExistingFile);
  command.add_option("--set", variables, "NAME=VALUE: a variable of the chat template, such as enable_thinking=false; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
}

ChatFormat ChatFlags::format(const TokenizerFolder& tokenizer) const {
  if (!template_file.empty()) {
    check(template_name.empty(), "chat",
          "--template names a template of the folder, and --template-file replaces them: pass one of the two");
    return ChatFormat::parse(text_of(template_file), tokenizer.special_tokens(), template_file);
  }
  auto format = tokenizer.chat_format(template_name);
  if (!format)
    fail(ErrorCode::bad_file, tokenizer.path(),
         "has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json), so the model was probably not trained to "
         "chat; pass --template-file FILE, or train one with weft train --chat-template chatml");
  return *std::move(format);
}

void ChatFlags::set_variables(Conversation& conversation) const {
  for (const std::string& text : variables) {
    const size_t equals = text.find('=');
    check(equals != text.npos, "chat", "--set is '", text, "', expected NAME=VALUE");
    set_variable(conversation, text.substr(0, equals), text.substr(equals + 1));
  }
}

void set_variable(Conversation& conversation, const std::string& name, const std::string& value) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  check(!name.empty() && std::all_of(name.begin(), name.end(), letter) && !std::isdigit(static_cast<unsigned char>(name[0])), "chat", "'",
        name, "' is not a name of a template's variable");
  check(name != "messages", "chat", "messages are not set as a variable");
  if (nlohmann::json::accept(value))
    conversation.set_json(name, value);
  else
    conversation.set(name, std::string_view(value));
}

std::vector<Conversation> read_conversations(const std::string& path) {
  if (path != "-") return has_lines(path) ? read_lines(text_of(path), path) : std::vector{Conversation::load(path)};
  const std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  if (looks_like_lines(text)) return read_lines(text, "standard input");
  return {Conversation::parse(text, "standard input")};
}

}  // namespace weft::cli
