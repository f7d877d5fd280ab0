// Renders templates for comparisons with jinja2 (scripts/golden/templates.py, bench/peers/chat_templates.py): reads one job per line of
// standard input, writes one result per line.
//
//   {"template": "...", "conversation": {...}, "special_tokens": {...}, "add_generation_prompt": true, "time": 0}
//   {"template": "...", "variables": {...}}
//
// A result is {"text": "..."} or {"error": "...", "code": "..."}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/chat/chat_format.h"
#include "weft/chat/chat_template.h"
#include "weft/chat/conversation_state.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

std::string render(const ordered_json& job) {
  const std::string text = job.at("template");
  const std::time_t time = job.value("time", 0);
  if (job.contains("variables")) {
    chat::Variables variables;
    const chat::Value values = chat::parse_value(job["variables"].dump(), "variables");
    for (const auto& [name, value] : values.dict().entries) variables.emplace_back(name.text(), value);
    return chat::ChatTemplate(text, "template").render(variables, time).text;
  }
  std::map<std::string, std::string> tokens;
  if (job.contains("special_tokens")) tokens = job["special_tokens"].get<std::map<std::string, std::string>>();
  ChatFormat format = ChatFormat::parse(text, tokens, "template");
  format.set_time(time);
  return format.render(Conversation::parse(job.at("conversation").dump()), job.value("add_generation_prompt", false));
}

}  // namespace
}  // namespace weft

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::ordered_json result;
    try {
      result["text"] = weft::render(nlohmann::ordered_json::parse(line));
    } catch (const weft::Error& error) {
      result["error"] = error.what();
      result["code"] = weft::name(error.code());
    }
    std::cout << result.dump() << "\n";
  }
}
