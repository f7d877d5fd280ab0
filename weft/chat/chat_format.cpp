#include "weft/chat/chat_format.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/spelling.h"
#include "weft/chat/chat_format_state.h"
#include "weft/chat/conversation_state.h"
#include "weft/chat/template_files.h"
#include "weft/chat/token_mask.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {

using chat::ChatTemplate;
using chat::Heap;
using chat::Value;

namespace {

constexpr const char* kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// transformers passes a message's reasoning under the names that templates read, whichever name it was given under.
Value with_reasoning(Heap& heap, const Value& message) {
  const Value* reasoning = nullptr;
  for (const char* name : kReasoning)
    if (const Value* found = message.dict().member(name); found && !found->is_none() && !reasoning) reasoning = found;
  if (!reasoning) return message;
  std::vector<chat::Dict::Entry> entries;
  entries.emplace_back(heap.string("thinking"), *reasoning);
  for (const auto& entry : message.dict().entries) entries.push_back(entry);
  entries.emplace_back(heap.string("reasoning_content"), *reasoning);
  return heap.dict(std::move(entries));
}

// All variables of a template: the messages, what the conversation sets, the special tokens.
chat::Variables variables_of(const Conversation::State& conversation, const std::map<std::string, std::string>& special_tokens,
                             bool add_generation_prompt) {
  Heap heap;
  chat::Variables variables;
  for (const auto& [name, token] : special_tokens) variables.emplace_back(name, heap.string(token));
  variables.emplace_back("tools", Value());
  variables.emplace_back("documents", Value());
  for (const auto& variable : conversation.variables) variables.push_back(variable);
  std::vector<Value> messages;
  for (const Value& message : conversation.messages) messages.push_back(with_reasoning(heap, message));
  variables.emplace_back("messages", heap.list(std::move(messages)));
  variables.emplace_back("add_generation_prompt", Value(add_generation_prompt));
  return variables;
}

bool has_tools(const Conversation& conversation) {
  for (const auto& [name, value] : conversation.state().variables)
    if (name == "tools") return !value.is_none();
  return false;
}

}  // namespace

const ChatTemplate& ChatFormat::State::used_for(const Conversation& conversation) const {
  const ChatTemplate* used = has_tools(conversation) && with_tools ? with_tools.get() : plain.get();
  if (!used) fail(ErrorCode::invalid_argument, folder, "has several chat templates and none is the default; choose one of ", listed(names));
  return *used;
}

chat::Rendered ChatFormat::State::render(const Conversation& conversation, bool add_generation_prompt) const {
  const ChatTemplate& used = used_for(conversation);
  check(conversation.size() > 0, used.file(), "the conversation has no messages");
  return used.render(variables_of(conversation.state(), special_tokens, add_generation_prompt), time ? *time : std::time(nullptr));
}

void ChatFormat::State::check_exact(const Conversation& conversation, const chat::Rendered& rendered) const {
  if (!rendered.generated_exact)
    fail(ErrorCode::unsupported, used_for(conversation).file(),
         "a generation block inside a macro, a call or a set block: the place of its text in the whole is not known");
}

ChatFormat::ChatFormat(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatFormat::ChatFormat(const ChatFormat& other) : state_(std::make_unique<State>(*other.state_)) {}
ChatFormat::ChatFormat(ChatFormat&&) noexcept = default;
ChatFormat& ChatFormat::operator=(const ChatFormat& other) { return *this = ChatFormat(other); }
ChatFormat& ChatFormat::operator=(ChatFormat&&) noexcept = default;
ChatFormat::~ChatFormat() = default;

namespace {

std::unique_ptr<ChatFormat::State> state_of(const std::vector<chat::TemplateText>& templates, const std::string& where,
                                            const std::string& name) {
  auto state = std::make_unique<ChatFormat::State>();
  state->folder = where;
  for (const chat::TemplateText& text : templates) state->names.push_back(text.name);
  const auto parsed = [&](const std::string& wanted) -> std::shared_ptr<const ChatTemplate> {
    for (const chat::TemplateText& text : templates)
      if (text.name == wanted) return std::make_shared<const ChatTemplate>(text.text, text.where);
    return nullptr;
  };
  if (!name.empty() && std::find(state->names.begin(), state->names.end(), name) == state->names.end())
    fail(ErrorCode::invalid_argument, where, "has no chat template '", name, "', only ", listed(state->names));
  state->plain = parsed(name.empty() ? "default" : name);
  if (name.empty()) state->with_tools = parsed("tool_use");
  return state;
}

}  // namespace

std::optional<ChatFormat> ChatFormat::load(const std::string& folder, const std::string& name) {
  const std::vector<chat::TemplateText> templates = chat::read_templates(folder);
  if (templates.empty()) return std::nullopt;
  auto state = state_of(templates, folder, name);
  state->special_tokens = chat::read_special_tokens(folder);
  return ChatFormat(std::move(state));
}

std::optional<ChatFormat> ChatFormat::of(const std::map<std::string, std::string>& templates,
                                         const std::map<std::string, std::string>& special_tokens, const std::string& where,
                                         const std::string& name) {
  std::vector<chat::TemplateText> texts;
  for (const auto& [each, text] : templates)
    texts.push_back({each, text, each == "default" ? where + " chat_template" : where + " chat_template '" + each + "'"});
  if (texts.empty()) return std::nullopt;
  auto state = state_of(texts, where, name);
  state->special_tokens = special_tokens;
  return ChatFormat(std::move(state));
}

ChatFormat ChatFormat::parse(std::string_view text, const std::map<std::string, std::string>& special_tokens, const std::string& file) {
  auto state = std::make_unique<State>();
  state->folder = file;
  state->names = {"default"};
  state->plain = std::make_shared<const ChatTemplate>(text, file);
  state->special_tokens = special_tokens;
  return ChatFormat(std::move(state));
}

std::map<std::string, std::string> ChatFormat::read_special_tokens(const std::string& folder) { return chat::read_special_tokens(folder); }

std::vector<std::string> ChatFormat::names() const { return state_->names; }
const std::map<std::string, std::string>& ChatFormat::special_tokens() const { return state_->special_tokens; }
bool ChatFormat::has_generation_blocks(const Conversation& conversation) const {
  return state_->used_for(conversation).generation_blocks();
}
void ChatFormat::set_time(std::optional<std::time_t> time) { state_->time = time; }

std::string ChatFormat::render(const Conversation& conversation, bool add_generation_prompt) const {
  return state_->render(conversation, add_generation_prompt).text;
}

ChatFormat::Encoded ChatFormat::encode(const Conversation& conversation, const Tokenizer& tokenizer, bool add_generation_prompt) const {
  chat::Rendered rendered = state_->render(conversation, add_generation_prompt);
  Encoded encoded;
  encoded.ids = tokenizer.encode(rendered.text, /*add_special=*/false);
  if (has_generation_blocks(conversation)) {
    state_->check_exact(conversation, rendered);
    encoded.generated = chat::token_mask(chat::token_spans(tokenizer, rendered.text, encoded.ids), rendered.text, rendered.generated);
  }
  encoded.text = std::move(rendered.text);
  return encoded;
}

}  // namespace weft
