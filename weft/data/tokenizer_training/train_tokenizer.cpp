#include "weft/data/tokenizer_training/train_tokenizer.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/data/tokenizer_training/merge_learner.h"
#include "weft/data/tokenizer_training/trained_json.h"
#include "weft/data/tokenizer_training/word_counts.h"
#include "weft/io/atomic_file.h"
#include "weft/io/tokenizer/byte_alphabet.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/models/tokenizer_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "tokenizer";
constexpr int64_t kMostTokens = 10'000'000;             // that a tokenizer.json may have (weft/io/tokenizer)
constexpr int64_t kMostWords = (int64_t(1) << 32) - 2;  // indices of words have 32 bits

void check_special(const std::vector<std::string>& special) {
  std::set<std::string> seen;
  for (const std::string& token : special) {
    check(!token.empty(), kWhere, "a special token is empty");
    check(first_invalid_utf8(token) == token.size(), kWhere, "a special token is not UTF-8");
    check(seen.insert(token).second, kWhere, "the special token '", token, "' is given twice");
    const auto bytes = bytes_spelled(token);
    check(!bytes || bytes->size() != 1, kWhere, "the special token '", token, "' is the letter of byte ",
          bytes ? int(uint8_t((*bytes)[0])) : 0, " in the vocabulary; expected a longer text");
  }
}

// The nearest folder at or above `path` that exists.
fs::path existing_above(fs::path path) {
  std::error_code ignored;
  while (!path.empty() && !fs::exists(path, ignored)) {
    if (path == path.parent_path()) break;
    path = path.parent_path();
  }
  return path.empty() ? "." : path;
}

fs::path without_slash(const std::string& folder) {
  fs::path path(folder);
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

WordPattern word_pattern(std::string_view name) {
  if (name == "gpt2") return WordPattern::gpt2;
  if (name == "llama3") return WordPattern::llama3;
  fail(ErrorCode::invalid_argument, kWhere, "the pattern is '", name, "', expected gpt2 or llama3");
}

void check_options(const TokenizerTraining& options) {
  const std::vector<std::string> special = special_tokens(options);
  check_special(special);
  const int64_t least = 256 + int64_t(special.size());
  check(options.vocabulary >= least && options.vocabulary <= kMostTokens, kWhere, "the vocabulary is to have ", options.vocabulary,
        " tokens, expected ", least, " (256 bytes and ", special.size(), special.size() == 1 ? " special token" : " special tokens",
        ") to ", kMostTokens);
  check(options.min_frequency >= 0, kWhere, "the least frequency is ", options.min_frequency, ", expected 0 or more");
  check(options.most_words >= 1 && options.most_words <= kMostWords, kWhere, "the limit of distinct words is ", options.most_words,
        ", expected 1 to ", kMostWords);
  check(options.threads >= 0, kWhere, options.threads, " threads, expected 1 or more");
}

TrainedTokenizer train_tokenizer(const Documents& documents, const TokenizerTraining& options) {
  check_options(options);
  const int threads = options.threads > 0 ? options.threads : available_threads();
  const Regex pattern = Regex::from_pattern(kWhere, pattern_text(options.pattern));
  WordCounts counts = count_words(documents, pattern, {.threads = threads, .most_words = options.most_words});
  TrainedTokenizer trained{.documents = counts.documents,
                           .bytes = counts.bytes,
                           .words = counts.occurrences,
                           .distinct_words = counts.words(),
                           .dropped_words = counts.dropped_words,
                           .dropped_occurrences = counts.dropped_occurrences,
                           .dropped_count = counts.dropped_count};
  if (trained.words == 0)
    fail(ErrorCode::bad_file, documents.files()[0],
         "there is no text to train on: ", counts.documents == 1 ? "the document is" : join("all ", counts.documents, " documents are"),
         " empty");
  const LearnedMerges learned = learn_merges(
      counts,
      {.vocabulary = options.vocabulary, .min_frequency = options.min_frequency, .special = special_tokens(options), .threads = threads});
  trained.vocabulary = int64_t(learned.tokens.size());
  trained.merges = int64_t(learned.merges.size());
  trained.exhausted = learned.exhausted;
  trained.tokenizer_json = trained_tokenizer_json(learned, options);
  trained.tokenizer_config_json = trained_config_json(options);
  return trained;
}

void check_new_folder(const std::string& folder) {
  const fs::path path = without_slash(folder);
  std::error_code ignored;
  if (path.empty()) fail(ErrorCode::bad_file, kWhere, "the folder to write has no name");
  if (fs::symlink_status(path, ignored).type() != fs::file_type::not_found)
    fail(ErrorCode::bad_file, folder, "exists already; expected the name of a new folder");
  const fs::path above = existing_above(path.parent_path());
  if (!fs::is_directory(above, ignored)) fail(ErrorCode::bad_file, folder, "cannot be made: ", above.string(), " is not a folder");
  if (::access(above.c_str(), W_OK | X_OK) != 0)
    fail(ErrorCode::bad_file, folder, "cannot be made: ", above.string(), " cannot be written");
}

void write_tokenizer_folder(const TrainedTokenizer& tokenizer, const std::string& folder) {
  check_new_folder(folder);
  const fs::path path = without_slash(folder);
  const fs::path temporary = path.string() + "." + random_digits() + std::string(kTemporarySuffix);
  try {
    fs::create_directories(temporary);
    write_tokenizer(tokenizer_files(tokenizer.tokenizer_json, tokenizer.tokenizer_config_json), temporary.string());
    fs::rename(temporary, path);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    fail(ErrorCode::bad_file, folder, "cannot be written: ", error.code().message());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  sync_folder(path.has_parent_path() ? path.parent_path().string() : ".");
}

}  // namespace weft
