// All conversations of chat data as ids with their answers marked, tokenised once and then mapped from disk.
//
// A cache file is a 64-byte header, one 32-bit word for each id (the highest bit: it is part of an answer), zeros up to a multiple of eight
// bytes, and the position of each conversation's first word (eight bytes each). The name of the file is a hash of the contents, of the
// template and of the vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "weft/data/chat_encoder.h"
#include "weft/data/documents.h"
#include "weft/io/mapped_file.h"

namespace weft {

class ChatCache {
 public:
  // Opens the cache of these documents in `folder`. If it is missing or damaged, tokenises them first on `threads` threads (0: all that the
  // process may use) with a few megabytes of text in memory, and announces that through `notice` (may be empty).
  ChatCache(const Documents& documents, const ChatEncoder& encoder, const std::string& folder,
            const std::function<void(const std::string&)>& notice = {}, int threads = 0);

  std::string identity() const;  // the file's name without its extension
  const std::string& path() const { return path_; }
  int64_t size() const { return conversations_; }
  int64_t tokens() const { return tokens_; }  // of all conversations
  int32_t largest_id() const { return largest_; }

  int64_t length(int64_t conversation) const { return end(conversation) - begins_[conversation]; }
  int32_t id(int64_t conversation, int64_t i) const { return int32_t(words_[begins_[conversation] + i] & kId); }
  bool counts(int64_t conversation, int64_t i) const { return (words_[begins_[conversation] + i] & ~kId) != 0; }

 private:
  static constexpr uint32_t kId = 0x7fffffff;
  bool open();  // false if the file is missing or damaged
  int64_t end(int64_t conversation) const { return conversation + 1 < conversations_ ? begins_[conversation + 1] : tokens_; }

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  const uint32_t* words_ = nullptr;
  const int64_t* begins_ = nullptr;
  int64_t tokens_ = 0, conversations_ = 0;
  int32_t largest_ = 0;
};

}  // namespace weft
