// A folder of prepared data: shards of ids (weft/data/token_shard.h), and a description of the data and the vocabulary they were made of.
//
//   weft-preparing.json   while it is being made: the description
//   weft-prepared.json    when it is whole: the description, the files' hashes and the shards
//   shard-00000.tokens ...
//   tokenizer/            of `weft prepare`: the tokenizer's files
//
// A cache folder (--cache) has one such folder for each set of data and vocabulary. Not installed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"
#include "weft/io/folder_lock.h"

namespace weft {

struct SourceFile {
  std::string path;  // absolute
  FileStamp stamp;
  uint64_t fingerprint = 0;
  uint64_t hash = 0;  // of the whole file; known when it was read

  bool operator==(const SourceFile&) const = default;
};

// The data and the vocabulary that shards are made of.
struct Inputs {
  std::string list;  // --data, with absolute paths
  std::string field = "text";
  uint64_t chat_template = 0;  // identity of the template that renders conversations
  std::vector<SourceFile> files = {};
  std::string vocabulary_kind = {};
  int64_t vocabulary_size = 0;
  uint64_t vocabulary_hash = 0;
};

struct ShardFacts {
  int64_t tokens = 0, documents = 0;
  uint64_t hash = 0;
};

struct Prepared {
  Inputs inputs;
  bool conversations = false;
  std::vector<ShardFacts> shards = {};
  // Of a folder with a copy of the tokenizer: the hash of the vocabulary that is read from it, and its token between documents.
  uint64_t copy_hash = 0;
  std::string end_token = {};
};

// Reads sizes, times and fingerprints of the files.
Inputs inputs_of(const Documents& documents, const Vocabulary& vocabulary);
// Names the cache's folder: depends on the contents' fingerprints, not on names and times. `of`: what it holds.
std::string cache_name(const Inputs& inputs, const std::string& of = "tokens");
uint64_t vocabulary_hash(const Vocabulary& vocabulary);

inline constexpr const char *kPrepared = "weft-prepared.json", *kPreparing = "weft-preparing.json";

bool is_prepared(const std::string& folder);
bool is_preparing(const std::string& folder);  // begun, and not whole

// Creates the folder if needed, and waits for another process that prepares it, which `notice` (may be empty) says once.
std::unique_ptr<FolderLock> lock_prepared(const std::string& folder, const std::function<void(const std::string&)>& notice);

// Throws bad_file naming the file and what is wrong in it.
Prepared read_prepared(const std::string& folder);
void write_prepared(const std::string& folder, const Prepared& prepared);
// The same, unless the folder is read-only: then a file with another time is compared again at the next start.
void write_prepared_if_possible(const std::string& folder, const Prepared& prepared);
Inputs read_preparing(const std::string& folder);
void write_preparing(const std::string& folder, const Inputs& inputs);

// The first difference between the files of `before` and those of `now`, as a sentence ("a.jsonl had 100 bytes, and has 120"); empty: none.
// A file with another time of modification is read whole, and is the same if its hash is; its stamp in `before` is then brought up to date.
std::string changed(std::vector<SourceFile>& before, const std::vector<SourceFile>& now);

// The same for data and vocabulary. `conversations`: there are some, so that the chat template matters.
std::string difference(Inputs& before, const Inputs& now, bool conversations);

}  // namespace weft
