// Any bytes as a chat template: rejected with one error, or it renders a conversation or fails with one error, within small limits. Bytes
// after a NUL are the conversation, and a line of chat data.
#include "weft/chat/chat_template.h"

#include "tests/fuzz/targets.h"
#include "weft/chat/chat_example.h"
#include "weft/chat/chat_format.h"
#include "weft/chat/conversation_state.h"

namespace weft::fuzz {
namespace {

constexpr const char* kConversation = R"({"messages": [{"role": "system", "content": "Be br\u00efef."},
  {"role": "user", "content": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "content": "<think>\nno\n</think>\n\nHello!",
  "tool_calls": [{"type": "function", "id": "1", "function": {"name": "f", "arguments": {"x": 1.5, "y": [true, null, -3]}}}]},
  {"role": "tool", "content": "42"}, {"role": "user", "content": "\ud83d\ude00"}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}}]})";

chat::TemplateLimits small_limits() {
  chat::TemplateLimits limits;
  limits.template_bytes = 65536;
  limits.output_bytes = 1 << 20;
  limits.memory_bytes = 16 << 20;
  limits.steps = 200'000;
  return limits;
}

void render(const chat::ChatTemplate& compiled, const Conversation& conversation) {
  chat::Variables variables = conversation.state().variables;
  chat::Heap heap;
  variables.emplace_back("messages", heap.list(conversation.state().messages));
  variables.emplace_back("add_generation_prompt", chat::Value(true));
  variables.emplace_back("bos_token", heap.string("<s>"));
  const chat::Rendered rendered = compiled.render(variables, 0);
  size_t at = 0;
  for (const auto& [first, last] : rendered.generated) {
    require(at <= first && first <= last && last <= rendered.text.size(), "a generation block lies outside the text");
    at = last;
  }
}

}  // namespace

void chat_template(std::string_view bytes) {
  static const chat::TemplateLimits limits = small_limits();
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  if (end < bytes.size()) try {
      const ChatExample example = parse_chat_example(bytes.substr(end + 1), "line");
      require(example.first < example.conversation.size(), "there is no message to learn");
    } catch (const Error& error) {
      require_file_error(error);
    }
  try {
    const Conversation conversation = Conversation::parse(end < bytes.size() ? bytes.substr(end + 1) : kConversation);
    const chat::ChatTemplate compiled(bytes.substr(0, end), "template", limits);
    try {
      render(compiled, conversation);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) require_file_error(error);
    }
  } catch (const Error& error) {
    require_file_error(error);
  }
}

}  // namespace weft::fuzz
