#include "weft/data/token_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "weft/base/check.h"
#include "weft/data/prepare.h"
#include "weft/data/prepared.h"
#include "weft/data/token_shard.h"
#include "weft/io/atomic_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReadWhole = int64_t(32) << 20;  // ids that are compared with their hash at every start: a few hundredths of a second

size_t part_of(const std::vector<int64_t>& begins, int64_t i) {
  return size_t(std::upper_bound(begins.begin(), begins.end(), i) - begins.begin()) - 1;
}

// The files as they are now; nothing if the data is not here, or not as it was listed.
std::vector<SourceFile> files_now(const Inputs& inputs) {
  std::vector<SourceFile> files;
  const Documents documents(inputs.list, {}, {}, inputs.field);
  for (const DataFile& file : documents.listed())
    files.push_back({.path = file.path, .stamp = file.stamp, .fingerprint = fingerprint_of(file.path)});
  return files;
}

// Compares prepared data with what it was made of, if that is here.
std::string difference_now(Prepared& prepared) {
  bool any = false;
  for (const SourceFile& file : prepared.inputs.files) any |= fs::exists(file.path);
  if (!any) return "";
  try {
    return changed(prepared.inputs.files, files_now(prepared.inputs));
  } catch (const Error& error) {
    return error.what();
  }
}

// Removes files of killed runs, of any data.
void remove_partial_files(const std::string& cache) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache, ignored))
    if (entry.is_directory() && entry.path().filename().string().starts_with("tokens-")) remove_incomplete(entry.path().string());
}

}  // namespace

TokenCache::TokenCache(TokenCache&&) noexcept = default;
TokenCache::~TokenCache() = default;

TokenCache::TokenCache(const Documents& documents, const Vocabulary& vocabulary, const std::string& cache,
                       const std::function<void(const std::string&)>& notice, int threads)
    : vocabulary_(vocabulary.size()) {
  const Inputs inputs = inputs_of(documents, vocabulary);
  const std::string folder = (fs::path(cache) / cache_name(inputs)).string();
  bool usable = false;
  if (is_prepared(folder)) {
    try {
      Prepared prepared = read_prepared(folder);
      const std::vector<SourceFile> before = prepared.inputs.files;
      usable = difference(prepared.inputs, inputs, prepared.conversations).empty() && open(folder);
      if (usable && prepared.inputs.files != before) write_prepared_if_possible(folder, prepared);
    } catch (const Error&) {  // damaged
      fs::remove(fs::path(folder) / kPrepared);
    }
  }
  if (usable) return;
  remove_partial_files(cache);
  prepare(documents, vocabulary, folder, {.threads = threads, .overwrite = true, .notice = notice});
  check(open(folder), folder, "the token cache was written, but does not read back");
}

TokenCache TokenCache::prepared(const std::string& folder, const Vocabulary& vocabulary,
                                const std::function<void(const std::string&)>& notice) {
  Prepared prepared = read_prepared(folder);
  const uint64_t hash = vocabulary_hash(vocabulary);
  if (hash != prepared.inputs.vocabulary_hash && hash != prepared.copy_hash)
    fail(ErrorCode::bad_file, folder, "was prepared with another tokenizer or end token (", prepared.inputs.vocabulary_size,
         " ids) than this run's (", vocabulary.size(), " ids); prepare the data again with --tokenizer");
  TokenCache tokens;
  tokens.vocabulary_ = vocabulary.size();
  if (!tokens.open(folder))
    fail(ErrorCode::bad_file, folder, "a shard is damaged or missing; run weft prepare again, which makes only what is missing");
  const std::vector<SourceFile> before = prepared.inputs.files;
  if (const std::string other = difference_now(prepared); !other.empty() && notice)
    notice(join(folder, ": the data has changed since it was prepared: ", other, "; training uses the prepared ids"));
  if (prepared.inputs.files != before) write_prepared_if_possible(folder, prepared);
  return tokens;
}

bool TokenCache::open(const std::string& folder) {
  const std::vector<ShardFacts> facts = read_prepared(folder).shards;
  int64_t total = 0;
  for (const ShardFacts& shard : facts) total += shard.tokens;
  folder_ = folder;
  shards_.clear();
  begins_ = documents_ = {0};
  uint64_t content = 0;
  for (size_t i = 0; i < facts.size(); ++i) {
    auto shard = TokenShard::open(folder, int64_t(i), total <= kReadWhole);
    if (!shard || shard->header().hash != facts[i].hash) return false;
    content = shard->header().content;
    begins_.push_back(begins_.back() + shard->count());
    documents_.push_back(documents_.back() + shard->documents());
    largest_ = std::max(largest_, shard->header().largest);
    shards_.push_back(std::move(shard));
  }
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)content);
  identity_ = text;
  return !facts.empty();
}

int32_t TokenCache::operator[](int64_t i) const {
  const size_t shard = part_of(begins_, i);
  return (*shards_[shard])[i - begins_[shard]];
}

void TokenCache::read(int64_t first, std::span<int32_t> ids) const {
  for (size_t done = 0; done < ids.size();) {
    const size_t shard = part_of(begins_, first + int64_t(done));
    const int64_t at = first + int64_t(done) - begins_[shard];
    const size_t count = std::min(ids.size() - done, size_t(shards_[shard]->count() - at));
    for (size_t i = 0; i < count; ++i) {
      const int32_t id = (*shards_[shard])[at + int64_t(i)];
      if (id < 0 || id >= vocabulary_)
        fail(ErrorCode::bad_file, join(folder_, "/", shard_name(int64_t(shard))), "is damaged: its id ", at + int64_t(i), " is ", id,
             ", the vocabulary has ", vocabulary_, "; prepare the data again");
      ids[done + i] = id;
    }
    done += count;
  }
}

int64_t TokenCache::document_begin(int64_t d) const {
  if (d >= documents()) return size();
  const size_t shard = part_of(documents_, d);
  return begins_[shard] + shards_[shard]->document_begin(d - documents_[shard]);
}

std::string default_cache_folder() {
  const auto set = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string folder = set("WEFT_CACHE"); !folder.empty()) return folder;
  if (const std::string folder = set("XDG_CACHE_HOME"); !folder.empty()) return folder + "/weft";
  if (const std::string home = set("HOME"); !home.empty()) return home + "/.cache/weft";
  return ".weft_cache";
}

bool is_prepared_data(const std::string& path) { return is_prepared(path); }

std::unique_ptr<Vocabulary> prepared_vocabulary(const std::string& folder) {
  const Prepared prepared = read_prepared(folder);
  if (prepared.copy_hash == 0) fail(ErrorCode::bad_file, folder, "holds no tokenizer; pass --tokenizer");
  return tokenizer_vocabulary(folder + "/tokenizer", prepared.end_token);
}

}  // namespace weft
