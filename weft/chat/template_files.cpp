#include "weft/chat/template_files.h"

#include <filesystem>

#include "weft/io/json.h"
#include "weft/io/mapped_file.h"
#include "weft/io/recognise.h"

namespace weft::chat {
namespace {

namespace fs = std::filesystem;

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

TemplateText read_text(const fs::path& path, const std::string& name) {
  const MappedFile file(path.string());
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  refuse_other_formats(path.string(), text);
  return {name, std::string(text), path.string()};
}

std::vector<TemplateText> read_jinja_files(const fs::path& folder) {
  std::vector<TemplateText> templates;
  if (there(folder / "chat_template.jinja")) templates.push_back(read_text(folder / "chat_template.jinja", "default"));
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", ignored))
    if (entry.path().extension() == ".jinja" && there(entry.path()))
      templates.push_back(read_text(entry.path(), entry.path().stem().string()));
  return templates;
}

// "chat_template" of a JSON file: one text, or a list of {"name", "template"}.
std::vector<TemplateText> read_json_member(const fs::path& path) {
  std::vector<TemplateText> templates;
  if (!there(path)) return templates;
  const Json document = read_json(path.string());
  const auto node = JsonNode(path.string(), document).object().find("chat_template");
  if (!node) return templates;
  const std::string file = path.string() + " chat_template";
  if (node->value().is_string()) return {{"default", node->text(), file}};
  if (!node->value().is_array()) node->refuse("is ", shown_value(node->value()), ", expected a text or a list of named templates");
  for (const JsonNode& entry : node->elements()) {
    const std::string name = entry.at("name").text();
    templates.push_back({name, entry.at("template").text(), file + " '" + shown(name) + "'"});
  }
  return templates;
}

void add_token(std::map<std::string, std::string>& tokens, const std::string& name, const JsonNode& node) {
  const Json& value = node.value();
  const bool object = value.is_object() && value.contains("content");
  if (value.is_string() || object) tokens.emplace(name, object ? node.at("content").text() : node.text());
}

}  // namespace

std::vector<TemplateText> read_templates(const std::string& folder) {
  const fs::path at(folder);
  std::vector<TemplateText> templates = read_jinja_files(at);
  if (templates.empty()) templates = read_json_member(at / "tokenizer_config.json");
  if (templates.empty()) templates = read_json_member(at / "chat_template.json");
  std::map<std::string, TemplateText> by_name;  // of two with one name the later one counts
  for (TemplateText& text : templates) by_name[text.name] = std::move(text);
  templates.clear();
  for (auto& [name, text] : by_name) templates.push_back(std::move(text));
  return templates;
}

std::map<std::string, std::string> read_special_tokens(const std::string& folder) {
  std::map<std::string, std::string> tokens;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const fs::path path = fs::path(folder) / name;
    if (!there(path)) continue;
    const Json document = read_json(path.string());
    const JsonNode root = JsonNode(path.string(), document).object();
    for (const auto& [key, node] : root.members()) {
      if (key.ends_with("_token")) add_token(tokens, key, node);
      if (key == "extra_special_tokens" && node.value().is_object())
        for (const auto& [extra, token] : node.members()) add_token(tokens, extra, token);
    }
  }
  return tokens;
}

}  // namespace weft::chat
