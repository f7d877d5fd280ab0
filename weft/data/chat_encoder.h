// A line of chat data to the ids of its conversation, with the answers marked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/chat/chat_format.h"
#include "weft/data/vocabulary.h"

namespace weft {

// Ids up to the last one that counts, which the model is to say.
struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<uint8_t> counts;  // 1: the id is part of an answer. The first id never counts: nothing comes before it
};

class ChatEncoder {
 public:
  // `vocabulary` has a tokenizer. `template_hash` differs between templates. Throws if the tokenizer lacks the special token that ends an
  // answer: it would be split into pieces.
  ChatEncoder(ChatFormat format, std::shared_ptr<const Vocabulary> vocabulary, uint64_t template_hash);

  // Reads and encodes {"messages": ...} or {"prompt": ..., "completion": ...}. Errors begin with `where`. Any number of threads may encode.
  EncodedChat encode(std::string_view json, const std::string& where) const;
  // The prompt for an answer to one message of the user.
  std::vector<int32_t> prompt(const std::string& question) const;

  const ChatFormat::EndOfTurn& end_of_turn() const { return end_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  uint64_t identity() const;  // of the template and the vocabulary

 private:
  ChatFormat format_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  uint64_t template_hash_;
  ChatFormat::EndOfTurn end_;
};

}  // namespace weft
