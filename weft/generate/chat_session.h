// A chat with a model: a conversation of questions and answers whose KV cache is kept between turns. Templates may render earlier messages
// differently in a later turn (many drop reasoning), so the longest common prefix of ids is reused and the rest is computed again.
//
//   ChatSession chat(*model, folder, *folder.tokenizer_folder().chat_format());
//   chat.conversation().add("user", "Hello");
//   chat.answer({.max_tokens = 100}, [](const NewToken& token) { std::cout << token.text << std::flush; });
//
// An answer has the same bits as with a new cache (docs/numerics.md). The cache's memory grows with the conversation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "weft/chat/chat_format.h"
#include "weft/chat/conversation.h"
#include "weft/generate/generator.h"

namespace weft {

struct ChatTurn {
  Completion completion;      // no ids: stopped before the first token, and no answer was added
  int64_t prompt_tokens = 0;  // of the rendered conversation
  int64_t reused = 0;         // of them found in the cache
  int64_t dropped = 0;        // messages that this turn dropped from the front because the context was full
  GenerateTimes times;
};

class ChatSession {
 public:
  // Model and folder must outlive it.
  ChatSession(const Model& model, const ModelFolder& folder, ChatFormat format);

  // The whole conversation, with the messages that are no longer rendered.
  Conversation& conversation() { return conversation_; }
  const Conversation& conversation() const { return conversation_; }
  void restart(Conversation conversation);  // another conversation; the cache stays, and what both share is reused

  // Replaces the system message at the beginning; an empty text removes it.
  void set_system(std::string_view text);
  std::string system() const;  // "" if there is none

  // The model's answer to the conversation, added to it as a message of the assistant. `options.max_tokens` is cut to what fits.
  //
  // A conversation that leaves less than a quarter of the context (or max_tokens, if that is less) for the answer loses its oldest turns
  // after the system message until it takes half of the context; a turn is a user's message and all that follows it up to the next one.
  // They stay in conversation() and are not rendered again. Throws, and leaves the conversation as it was, if the last turn alone does
  // not fit, and if the template refuses the conversation.
  ChatTurn answer(GenerateOptions options, const std::function<void(const NewToken&)>& on_token = {});

 private:
  Conversation rendered() const;
  size_t system_messages() const;
  bool drop_oldest_turn();
  std::vector<int32_t> prompt(const GenerateOptions& options);
  std::vector<int32_t> encode() const;

  const Model& model_;
  const ModelFolder& folder_;
  ChatFormat format_;
  std::vector<int32_t> end_ids_;
  Conversation conversation_;
  Engine engine_;      // keeps the pages of earlier turns
  size_t hidden_ = 0;  // messages after the system messages that are no longer rendered
  uint64_t seed_ = 0;
  std::map<uint64_t, uint32_t> occurrences_;  // of a prompt, by prompt_key(), since the seed was set
};

// The ids that end an answer: those of the folder's files, the tokenizer's eos_token, and the special token that the template writes after
// an assistant's message (<|im_end|>, <|eot_id|>).
std::vector<int32_t> end_of_turn_ids(const ModelFolder& folder, const ChatFormat& format);

}  // namespace weft
