// Documents as one array of ids, made once and then mapped from disk.
//
// A cache file is a header of 64 bytes and the ids, two bytes each where the vocabulary fits, else four. Its name is the
// hash of the documents' contents and the vocabulary's definition, so changed data or another tokenizer is another file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/io/mapped_file.h"
#include "weft/train/documents.h"
#include "weft/train/vocabulary.h"

namespace weft {

class TokenCache {
 public:
  // Opens the cache of these documents in `folder`, tokenising them first where it is missing or damaged, on as many threads
  // (0: all that the process may use). `notice` (may be empty) is told what is being done when that takes time.
  TokenCache(const Documents& documents, const Vocabulary& vocabulary, const std::string& folder,
             const std::function<void(const std::string&)>& notice = {}, int threads = 0);

  std::string identity() const;  // of the contents and the vocabulary: the file's name
  int64_t size() const { return count_; }
  int32_t operator[](int64_t i) const { return width_ == 2 ? int32_t(narrow_[i]) : wide_[i]; }
  const std::string& path() const { return path_; }

 private:
  bool open();  // false when it is not there or not whole

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  const uint16_t* narrow_ = nullptr;
  const int32_t* wide_ = nullptr;
  int64_t count_ = 0;
  int width_ = 2;
};

// $WEFT_CACHE, $XDG_CACHE_HOME/weft or ~/.cache/weft.
std::string default_cache_folder();

}  // namespace weft
