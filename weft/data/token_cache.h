// All documents as one array of token ids, tokenised once (weft/data/prepare.h) and then mapped from disk.
//
// Data that was tokenised before is recognised by the sizes of its files, their times of modification, and a hash of their first, middle
// and last 64 KiB. A file with another time is read and compared by the hash of all its bytes, which was taken when it was tokenised. So a
// start reads neither the data nor the ids, but for small ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"

namespace weft {

class TokenShard;

class TokenCache {
 public:
  // Opens these documents in a cache folder. If they are not there or damaged, tokenises them first on `threads` threads (0: all that the
  // process may use) and announces that through `notice` (may be empty).
  TokenCache(const Documents& documents, const Vocabulary& vocabulary, const std::string& cache,
             const std::function<void(const std::string&)>& notice = {}, int threads = 0);
  // Opens a folder of `weft prepare`. Throws if it was prepared with another vocabulary; says through `notice` if its data has changed.
  static TokenCache prepared(const std::string& folder, const Vocabulary& vocabulary,
                             const std::function<void(const std::string&)>& notice = {});
  TokenCache(TokenCache&&) noexcept;
  ~TokenCache();

  std::string identity() const { return identity_; }  // a hash of the ids and of where documents begin
  int64_t size() const { return begins_.back(); }
  int32_t operator[](int64_t i) const;
  void read(int64_t first, std::span<int32_t> ids) const;  // ids [first, first + ids.size())
  int32_t largest_id() const { return largest_; }

  // Document d is the ids [document_begin(d), document_begin(d + 1)), with the separator that follows it. Documents may be empty;
  // document_begin(documents()) is size().
  int64_t documents() const { return documents_.back(); }
  int64_t document_begin(int64_t d) const;
  const std::string& path() const { return folder_; }  // the folder of the shards

 private:
  TokenCache() = default;
  // False if shards are missing or damaged. Small ones are read whole to find that out.
  bool open(const std::string& folder);

  std::string folder_, identity_;
  std::vector<std::unique_ptr<TokenShard>> shards_;
  std::vector<int64_t> begins_, documents_;  // ids and documents before each shard, and in all
  int32_t largest_ = 0;
  int64_t vocabulary_ = 0;  // ids are below it
};

// $WEFT_CACHE, $XDG_CACHE_HOME/weft or ~/.cache/weft.
std::string default_cache_folder();

// Whether the path is a folder of `weft prepare`. The vocabulary that such a folder holds, which its ids were made with.
bool is_prepared_data(const std::string& path);
std::unique_ptr<Vocabulary> prepared_vocabulary(const std::string& folder);

}  // namespace weft
