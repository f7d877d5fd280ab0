#include "weft/data/chat_encoder.h"

#include <algorithm>
#include <span>

#include "weft/base/check.h"
#include "weft/chat/chat_example.h"
#include "weft/io/checksum.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

// Another rule of marking answers needs another version: cached masks are then made anew.
constexpr uint64_t kVersion = 1;

// strftime_now() in training data: noon of 26 July 2024 UTC. A run that is resumed on another day has the same ids.
constexpr std::time_t kTime = 1721995200;

// <|im_end|>, </s>, [/INST]: a text that is meant to be a special token.
bool looks_special(std::string_view text) {
  return text.size() >= 3 && ((text.starts_with('<') && text.ends_with('>')) || (text.starts_with('[') && text.ends_with(']')));
}

// Whether some answer, a run of tokens that count, consists of special tokens alone.
bool has_hollow_answer(const EncodedChat& chat, const Tokenizer& tokenizer) {
  bool inside = false, says = true;
  for (size_t i = 0; i < chat.ids.size(); ++i) {
    if (chat.counts[i] && !inside) says = false;
    if (!chat.counts[i] && inside && !says) return true;
    inside = chat.counts[i];
    says = says || !tokenizer.is_special(chat.ids[i]);
  }
  return !says;
}

}  // namespace

ChatEncoder::ChatEncoder(ChatFormat format, std::shared_ptr<const Vocabulary> vocabulary, uint64_t template_hash)
    : format_(std::move(format)), vocabulary_(std::move(vocabulary)), template_hash_(template_hash) {
  const Tokenizer* tokenizer = vocabulary_->tokenizer();
  check(tokenizer != nullptr, "chat data", "needs a tokenizer; the vocabulary is ", vocabulary_->kind());
  format_.set_time(kTime);
  end_ = format_.end_of_turn(*tokenizer);
  if (!end_.id && looks_special(end_.text))
    fail(ErrorCode::invalid_argument, "chat template", "ends an answer with ", end_.text,
         ", which is not a special token of the tokenizer: it is split into ", tokenizer->encode(end_.text, false).size(),
         " tokens, and a model could not end its answers with it; take a tokenizer that has it, or the template and tokens of "
         "--chat-template chatml");
}

EncodedChat ChatEncoder::encode(std::string_view json, const std::string& where) const {
  const auto encoded = [&] {
    const ChatExample example = parse_chat_example(json, where);
    try {
      return format_.encode_answers(example.conversation, *vocabulary_->tokenizer(), example.first);
    } catch (const Error& error) {
      fail(error.code(), where, error.what());
    }
  }();
  EncodedChat chat{std::move(encoded.ids), std::move(encoded.generated)};
  if (!chat.counts.empty()) chat.counts[0] = 0;
  const auto last = std::find(chat.counts.rbegin(), chat.counts.rend(), 1);
  if (last == chat.counts.rend())
    fail(ErrorCode::bad_file, where, "the chat template writes nothing of the assistant's messages that could be learnt");
  const size_t size = size_t(chat.counts.rend() - last);
  chat.ids.resize(size);
  chat.counts.resize(size);
  if (has_hollow_answer(chat, *vocabulary_->tokenizer()))
    fail(ErrorCode::bad_file, where,
         "the chat template writes an answer as special tokens alone: it leaves out the content or the tool calls");
  return chat;
}

std::vector<int32_t> ChatEncoder::prompt(const std::string& question) const {
  Conversation conversation;
  conversation.add("user", question);
  return format_.encode(conversation, *vocabulary_->tokenizer(), /*add_generation_prompt=*/true).ids;
}

uint64_t ChatEncoder::identity() const {
  const uint64_t parts[] = {kVersion, template_hash_, vocabulary_->hash()};
  const std::string kind = vocabulary_->kind();
  return xxh64(std::as_bytes(std::span(parts)), xxh64(std::as_bytes(std::span(kind))));
}

}  // namespace weft
