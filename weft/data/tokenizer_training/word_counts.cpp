#include "weft/data/tokenizer_training/word_counts.h"

#include <algorithm>
#include <exception>
#include <map>
#include <string>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/base/progress.h"
#include "weft/io/tokenizer/cuts.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/io/tokenizer/word_cache.h"

namespace weft {
namespace {

constexpr size_t kTaskBytes = size_t(128) << 10;  // of text: the table of its words stays in the L2 cache
constexpr size_t kBatchBytes = size_t(8) << 20;   // of text in memory: 64 tasks
constexpr int64_t kWordsBetweenChecks = 1 << 20;  // of a long text that is counted alone

// Splits a word that is too long between two characters.
template <class Word>
void for_each_part(std::string_view word, const Word& found) {
  while (word.size() > kLongestWord) {
    size_t length = kLongestWord;
    while ((word[length] & 0xc0) == 0x80) --length;
    found(word.substr(0, length));
    word.remove_prefix(length);
  }
  found(word);
}

template <class Word>
void for_each_word(const Regex& pattern, std::string_view text, Regex::Scratch& scratch, const Word& found) {
  size_t done = 0;
  const auto between = [&](size_t end) {
    if (done < end) for_each_part(text.substr(done, end - done), found);
  };
  for_each_match(pattern, text, scratch, [&](Match match) {
    between(match.begin);
    if (match.begin < match.end) for_each_part(text.substr(match.begin, match.end - match.begin), found);
    done = match.end;
  });
  between(text.size());
}

void check_piece(std::string_view text, const std::string& where, size_t offset) {
  const size_t wrong = first_invalid_utf8(text);
  if (wrong == text.size()) return;
  const bool cut = utf8_step(text.substr(wrong)).cut;
  fail(ErrorCode::bad_file, where, "is not UTF-8: ", cut ? "a truncated character" : "invalid bytes", " at byte ", offset + wrong);
}

// A document, or a part of one.
struct Piece {
  std::string_view text;  // in the batch
  std::string where;
  size_t offset;  // in the document
};

struct Task {
  std::vector<Piece> pieces;
  size_t bytes = 0;
  int64_t occurrences = 0;
  LocalWords words;
  Regex::Scratch scratch;
  std::exception_ptr error;

  void run(const Regex& pattern) {
    try {
      for (const Piece& piece : pieces) {
        check_piece(piece.text, piece.where, piece.offset);
        for_each_word(pattern, piece.text, scratch, [&](std::string_view word) {
          words.add(word, WordCache::hash_of(word));
          ++occurrences;
        });
      }
      words.group();
    } catch (...) {
      error = std::current_exception();
    }
  }
  void clear() {
    pieces.clear();
    words.clear();
    bytes = 0, occurrences = 0;
  }
};

class Counter {
 public:
  Counter(const Regex& pattern, const CountingOptions& options, int64_t bytes)
      : pattern_(pattern), options_(options), file_bytes_(bytes), tell_(report_bytes("counting words", size_t(bytes))) {
    batch_.reserve(kBatchBytes);
  }

  // The parts of a document come one after the other.
  void add_part(const Documents::Part& part) {
    if (part.begins) {
      ++counts_.documents;
      offset_ = 0;
      document_ = part.where;  // later parts are called "... from byte n"
    }
    read_ = part.bytes;
    counts_.bytes += int64_t(part.text.size());
    for (size_t at = 0; at < part.text.size();) {
      const size_t bytes = length_of_piece(part.text.substr(at));
      add_piece(part.text.substr(at, bytes), document_, offset_ + at);
      at += bytes;
    }
    offset_ += part.text.size();
  }

  WordCounts finish() {
    read_ = file_bytes_;
    flush();
    return std::move(counts_);
  }

 private:
  // kTaskBytes, or more if the text cannot be split there.
  static size_t length_of_piece(std::string_view text) {
    for (size_t most = kTaskBytes; most < text.size(); most *= 2)
      if (const size_t cut = last_cut(text, most)) return cut;
    return text.size();
  }

  void add_piece(std::string_view text, const std::string& where, size_t offset) {
    if (text.size() > kBatchBytes) return count_alone(text, where, offset);
    const size_t bytes = text.size() + sizeof(Piece);
    if (batch_.size() + text.size() > kBatchBytes || held_ + bytes > kBatchBytes) flush();
    if (used_ == 0 || tasks_[used_ - 1].bytes + bytes > kTaskBytes) {
      if (used_ == tasks_.size()) tasks_.emplace_back();
      ++used_;
    }
    const size_t at = batch_.size();
    batch_.append(text);  // within the reserved memory
    tasks_[used_ - 1].pieces.push_back({std::string_view(batch_).substr(at), where, offset});
    tasks_[used_ - 1].bytes += bytes;
    held_ += bytes;
  }

  // Counts the words of the batch. Raises the first error in the order of the documents.
  void flush() {
    parallel_for(int64_t(used_), options_.threads, [&](int64_t i) { tasks_[size_t(i)].run(pattern_); });
    for (size_t i = 0; i < used_; ++i)
      if (tasks_[i].error) std::rethrow_exception(tasks_[i].error);
    parallel_for(kWordShards, options_.threads, [&](int64_t shard) {
      for (size_t i = 0; i < used_; ++i)
        for (const LocalWords::Word& word : tasks_[i].words.of_shard(int(shard)))
          counts_.shards[size_t(shard)].add({word.text, word.length}, word.hash, word.count);
    });
    for (size_t i = 0; i < used_; ++i) {
      counts_.occurrences += tasks_[i].occurrences;
      tasks_[i].clear();
    }
    batch_.clear();
    used_ = held_ = 0;
    keep_limit();
    tell_(read_);
  }

  // Counts a long text that cannot be split, without a copy of it.
  void count_alone(std::string_view text, const std::string& where, size_t offset) {
    flush();
    check_piece(text, where, offset);
    Regex::Scratch scratch;
    for_each_word(pattern_, text, scratch, [&](std::string_view word) {
      const uint64_t hash = WordCache::hash_of(word);
      counts_.shards[size_t(word_shard_of(hash))].add(word, hash, 1);
      if (++counts_.occurrences % kWordsBetweenChecks != 0) return;
      keep_limit();
      tell_(read_);
    });
    keep_limit();
  }

  void keep_limit() {
    const int64_t words = counts_.words(), bytes = counts_.word_bytes();
    if (words <= options_.most_words && bytes <= kBytesPerWord * options_.most_words) return;
    const int64_t most = drop_at_most(words, bytes);
    parallel_for(kWordShards, options_.threads, [&](int64_t shard) { counts_.shards[size_t(shard)].keep_above(most); });
    counts_.dropped_words += words - counts_.words();
    counts_.dropped_count = std::max(counts_.dropped_count, most);
  }

  // The smallest count whose words, and those that occur less often, must be dropped to leave half of the limit.
  int64_t drop_at_most(int64_t words, int64_t bytes) {
    struct Group {
      int64_t words = 0, bytes = 0;
    };
    std::map<int64_t, Group> groups;  // by count
    for (const WordTable& table : counts_.shards)
      table.visit([&](std::string_view word, int64_t count) {
        Group& group = groups[count];
        ++group.words;
        group.bytes += int64_t(word.size());
      });
    for (const auto& [count, group] : groups) {
      words -= group.words;
      bytes -= group.bytes;
      counts_.dropped_occurrences += count * group.words;
      if (words <= options_.most_words / 2 && bytes <= kBytesPerWord * options_.most_words / 2) return count;
    }
    return 0;  // never: no words are left
  }

  const Regex& pattern_;
  const CountingOptions options_;
  const int64_t file_bytes_;
  const std::function<void(int64_t)> tell_;  // reports the bytes of the files that are done
  std::string batch_;                        // texts of the pieces
  std::vector<Task> tasks_;                  // the first used_ are filled; the others keep their memory for the next batch
  std::string document_;                     // its name
  size_t offset_ = 0;                        // of the part in its document
  int64_t read_ = 0;                         // bytes of the files
  size_t used_ = 0, held_ = 0;               // held_: bytes of text and pieces
  WordCounts counts_;
};

}  // namespace

int64_t WordCounts::words() const {
  int64_t sum = 0;
  for (const WordTable& table : shards) sum += table.words();
  return sum;
}

int64_t WordCounts::word_bytes() const {
  int64_t sum = 0;
  for (const WordTable& table : shards) sum += table.bytes();
  return sum;
}

WordCounts count_words(const Documents& documents, const Regex& pattern, const CountingOptions& options) {
  Counter counter(pattern, options, documents.bytes());
  documents.visit_parts(last_cut, [&](const Documents::Part& part) { counter.add_part(part); });
  return counter.finish();
}

}  // namespace weft
