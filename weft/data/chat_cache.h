// All conversations of chat data as ids with their answers marked, tokenised once and then mapped from disk.
//
// The cache has a folder for each set of data, template and vocabulary, with a description of them (weft/data/prepared.h) and one file:
// a 64-byte header, one 32-bit word for each id (the highest bit: it is part of an answer), zeros up to a multiple of eight bytes, and for
// each conversation the position of its first word and the number of ids that are part of an answer (eight bytes each). As for text
// (weft/data/token_cache.h), a start reads neither the data nor the ids, but for small ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "weft/data/chat_encoder.h"
#include "weft/data/documents.h"
#include "weft/io/mapped_file.h"

namespace weft {

struct Inputs;

class ChatCache {
 public:
  // Opens the conversations of these documents in the cache. If they are missing or damaged, tokenises them first on `threads` threads (0:
  // all that the process may use) with a few megabytes of text in memory, and announces that through `notice` (may be empty). Of several
  // processes one tokenises, and the others wait.
  ChatCache(const Documents& documents, const ChatEncoder& encoder, const std::string& cache,
            const std::function<void(const std::string&)>& notice = {}, int threads = 0);

  const std::string& identity() const { return identity_; }  // a hash of the ids and their marks, and of the encoder
  const std::string& path() const { return path_; }
  int64_t size() const { return conversations_; }
  int64_t tokens() const { return tokens_; }  // of all conversations
  int32_t largest_id() const { return largest_; }

  int64_t length(int64_t conversation) const { return end(conversation) - index_[conversation].begin; }
  int64_t counted(int64_t conversation) const { return index_[conversation].counted; }  // ids that are part of an answer, never the first
  int32_t id(int64_t conversation, int64_t i) const;                                    // throws for an id that the data cannot have
  bool counts(int64_t conversation, int64_t i) const { return (words_[index_[conversation].begin + i] & ~kId) != 0; }

  struct Entry {
    int64_t begin, counted;
  };

 private:
  static constexpr uint32_t kId = 0x7fffffff;
  bool find(const std::string& folder, const Inputs& inputs);  // false if there is nothing, or it is damaged or of other data
  bool open(uint64_t content);
  void make(const std::string& folder, const Documents& documents, const ChatEncoder& encoder, Inputs& inputs, int threads);
  int64_t end(int64_t conversation) const { return conversation + 1 < conversations_ ? index_[conversation + 1].begin : tokens_; }

  std::string path_, identity_;
  std::unique_ptr<MappedFile> file_;
  const uint32_t* words_ = nullptr;
  const Entry* index_ = nullptr;
  int64_t tokens_ = 0, conversations_ = 0;
  int32_t largest_ = 0;
};

}  // namespace weft
