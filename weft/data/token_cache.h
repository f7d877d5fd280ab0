// All documents as one array of token ids, tokenised once and then mapped from disk.
//
// A cache file is a 64-byte header, the ids (two bytes each if the vocabulary has at most 65536 ids, else four), zeros up to a
// multiple of eight bytes, and the position of each document's first id (eight bytes each). The name of the file is a hash of the
// documents' contents and of the vocabulary, so changed data or another tokenizer gives another file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/io/mapped_file.h"
#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"

namespace weft {

class TokenCache {
 public:
  // Opens the cache of these documents in `folder`. If it is missing or damaged, tokenises them first on `threads` threads (0: all
  // that the process may use) and announces that through `notice` (may be empty).
  TokenCache(const Documents& documents, const Vocabulary& vocabulary, const std::string& folder,
             const std::function<void(const std::string&)>& notice = {}, int threads = 0);

  std::string identity() const;  // the file's name without its extension
  int64_t size() const { return count_; }
  int32_t operator[](int64_t i) const { return width_ == 2 ? int32_t(narrow_[i]) : wide_[i]; }

  // Document d is the ids [document_begin(d), document_begin(d + 1)), with the separator that follows it. Documents may be empty;
  // document_begin(documents()) is size().
  int64_t documents() const { return documents_; }
  int64_t document_begin(int64_t d) const { return d < documents_ ? begins_[d] : count_; }
  const std::string& path() const { return path_; }

 private:
  bool open();  // false if the file is missing or damaged

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  const uint16_t* narrow_ = nullptr;
  const int32_t* wide_ = nullptr;
  const int64_t* begins_ = nullptr;
  int64_t count_ = 0, documents_ = 0;
  int width_ = 2;
};

// $WEFT_CACHE, $XDG_CACHE_HOME/weft or ~/.cache/weft.
std::string default_cache_folder();

}  // namespace weft
