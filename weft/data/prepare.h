// Tokenises data into a folder of shards (weft/data/prepared.h). A shard appears whole or not at all, so a preparation that was killed is
// continued behind its last shard, and ends with the same files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"

namespace weft {

struct PrepareOptions {
  int threads = 0;  // 0: all that the process may use
  // Replace what was prepared of other data or with another vocabulary; else that is an error.
  bool overwrite = false;
  bool copy_tokenizer = false;                          // into the folder, for training without another copy
  int64_t shard_tokens = int64_t(16) << 20;             // at least, but for the last shard
  size_t batch_bytes = size_t(8) << 20;                 // of text, encoded at once; shards end between batches
  std::function<void(const std::string&)> notice = {};  // may be empty
};

struct PrepareOutcome {
  int64_t tokens = 0, documents = 0, shards = 0;
  int64_t kept = 0;  // shards that were there already
};

// Makes what is missing in the folder. Two processes that prepare the same folder take turns.
PrepareOutcome prepare(const Documents& documents, const Vocabulary& vocabulary, const std::string& folder, const PrepareOptions& options);

}  // namespace weft
