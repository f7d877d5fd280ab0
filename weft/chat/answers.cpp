// The answers of a conversation: what a model is trained to say.
#include <algorithm>

#include "weft/base/check.h"
#include "weft/chat/chat_format_state.h"
#include "weft/chat/conversation_state.h"
#include "weft/chat/token_mask.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

Conversation first_messages(const Conversation& conversation, size_t count) {
  Conversation some = conversation;
  some.erase(count, conversation.size() - count);
  return some;
}

[[noreturn]] void refuse(const ChatFormat::State& state, const Conversation& conversation, size_t message, const std::string& why) {
  const bool marked = state.used_for(conversation).generation_blocks();
  fail(ErrorCode::unsupported, state.used_for(conversation).file(), "the answer in message ", message, " cannot be found: ", why,
       marked ? "" : "; a template that marks answers with {% generation %} and {% endgeneration %} has no such limit");
}

// Renders the messages before `message`, with the generation prompt, or up to it.
std::string rendered_part(const ChatFormat::State& state, const Conversation& conversation, size_t message, bool before) {
  try {
    return state.render(first_messages(conversation, before ? message : message + 1), before).text;
  } catch (const Error& error) {
    refuse(state, conversation, message, join("the messages ", before ? "before" : "up to", " it alone are refused (", error.what(), ")"));
  }
}

std::string prompt_of(const ChatFormat::State& state, const Conversation& conversation, size_t message, std::string_view whole) {
  if (message == 0) refuse(state, conversation, message, "no message comes before it");
  std::string before = rendered_part(state, conversation, message, true);
  if (!whole.starts_with(before))
    refuse(state, conversation, message, "the text of the messages before it and the generation prompt does not begin the whole text");
  return before;
}

// One answer by its prefixes. The text up to the generation prompt and the text up to the answer's end must be prefixes of `whole`.
chat::Span answer_by_prefixes(const ChatFormat::State& state, const Conversation& conversation, size_t message, std::string_view whole) {
  const std::string before = prompt_of(state, conversation, message, whole);
  if (message + 1 == conversation.size()) return {before.size(), whole.size()};
  const std::string up_to = rendered_part(state, conversation, message, false);
  if (!whole.starts_with(up_to) || up_to.size() < before.size())
    refuse(state, conversation, message, "the template renders it differently once other messages follow");
  return {before.size(), up_to.size()};
}

// Leaves out white space that follows the special token at the end of an answer.
void cut_after_end(chat::Span& answer, std::string_view text, std::span<const chat::Span> tokens, std::span<const int32_t> ids,
                   const Tokenizer& tokenizer) {
  const size_t last = text.substr(0, answer.second).find_last_not_of(kBlank);
  if (last == text.npos || last < answer.first) return;
  const auto token =
      std::lower_bound(tokens.begin(), tokens.end(), last, [](const chat::Span& each, size_t at) { return each.second <= at; });
  if (token != tokens.end() && tokenizer.is_special(ids[size_t(token - tokens.begin())])) answer.second = last + 1;
}

}  // namespace

ChatFormat::Encoded ChatFormat::encode_answers(const Conversation& conversation, const Tokenizer& tokenizer, size_t first) const {
  chat::Rendered rendered = state_->render(conversation, false);
  Encoded encoded;
  encoded.ids = tokenizer.encode(rendered.text, /*add_special=*/false);
  const std::vector<chat::Span> tokens = chat::token_spans(tokenizer, rendered.text, encoded.ids);
  std::vector<chat::Span> answers;
  if (has_generation_blocks(conversation)) {
    state_->check_exact(conversation, rendered);
    answers = std::move(rendered.generated);
    if (first > 0) {
      const size_t prompt = prompt_of(*state_, conversation, first, rendered.text).size();
      std::erase_if(answers, [&](const chat::Span& answer) { return answer.second <= prompt; });
    }
  } else {
    for (size_t i = first; i < conversation.size(); ++i)
      if (conversation.role(i) == "assistant") {
        answers.push_back(answer_by_prefixes(*state_, conversation, i, rendered.text));
        cut_after_end(answers.back(), rendered.text, tokens, encoded.ids, tokenizer);
      }
  }
  encoded.generated = chat::token_mask(tokens, rendered.text, answers);
  encoded.text = std::move(rendered.text);
  return encoded;
}

ChatFormat::EndOfTurn ChatFormat::end_of_turn(const Tokenizer& tokenizer) const {
  constexpr std::string_view kMark = "xyzzy";  // a text that no template contains
  Conversation probe;
  probe.add("user", "a");
  probe.add("assistant", kMark);
  try {
    const std::string text = render(probe, false);
    const size_t mark = text.rfind(kMark);
    if (mark == text.npos) return {};
    const size_t begin = text.find_first_not_of(kBlank, mark + kMark.size());
    if (begin == text.npos) return {};
    const std::string rest = text.substr(begin);
    const std::vector<int32_t> ids = tokenizer.encode(rest, false);
    if (!ids.empty() && tokenizer.is_special(ids[0])) return {std::string(tokenizer.bytes_of(ids[0])), ids[0]};
    return {rest.substr(0, rest.find_first_of(kBlank)), std::nullopt};
  } catch (const Error&) {  // the real conversation raises it again, where it can be reported
    return {};
  }
}

}  // namespace weft
