#include "weft/data/tokenizer_training/merge_learner.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>

#include "weft/base/parallel.h"
#include "weft/base/progress.h"
#include "weft/data/tokenizer_training/merged_words.h"
#include "weft/data/tokenizer_training/place_lists.h"
#include "weft/io/tokenizer/byte_alphabet.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr int64_t kMergesPerReport = 64;
constexpr int64_t kPlacesPerTask = 2048;  // words: some 50 us, longer than it takes to wake a thread
constexpr int kMostTasks = 16;            // at once: more threads wait for memory

// The tokens by id and by spelling.
class Tokens {
 public:
  // The id of this spelling: an existing one, or the next.
  uint32_t add(const std::string& spelling) {
    const auto [found, added] = ids_.try_emplace(spelling, uint32_t(spellings_.size()));
    if (added) spellings_.push_back(spelling);
    return found->second;
  }
  int64_t size() const { return int64_t(spellings_.size()); }
  const std::string& operator[](uint32_t id) const { return spellings_[id]; }
  std::vector<std::string> take() { return std::move(spellings_); }

 private:
  std::vector<std::string> spellings_;
  std::unordered_map<std::string, uint32_t> ids_;
};

// The bytes in the order of their letters.
std::array<uint8_t, 256> bytes_by_letter() {
  std::array<uint8_t, 256> bytes;
  std::iota(bytes.begin(), bytes.end(), uint8_t(0));
  const auto code = [](uint8_t byte) { return utf8_step(letter_of_byte(byte)).code; };
  std::ranges::sort(bytes, {}, code);
  return bytes;
}

// A pair that may be merged next, in the words of its list.
struct Candidate {
  int64_t count;
  TokenPair pair;
  PlaceLists::List places;
};

// Whether `a` is merged after `b`.
bool later(const Candidate& a, const Candidate& b) { return a.count != b.count ? a.count < b.count : a.pair > b.pair; }

class Learner {
 public:
  Learner(WordCounts& counts, const MergeOptions& options) : options_(options) {
    for (const std::string& token : options.special) tokens_.add(token);
    std::array<uint32_t, 256> id_of_byte;
    for (const uint8_t byte : bytes_by_letter()) id_of_byte[byte] = tokens_.add(std::string(letter_of_byte(byte)));
    words_.take(counts, id_of_byte);
    add_first_candidates(id_of_byte);
  }

  LearnedMerges run() {
    LearnedMerges learned;
    const int64_t first = tokens_.size(), total = options_.vocabulary - first;
    while (tokens_.size() < options_.vocabulary) {
      if (learned.merges.size() % kMergesPerReport == 0)
        report_progress({.what = "merging", .done = tokens_.size() - first, .total = total});
      const auto top = take_most_frequent();
      if (!top) {
        learned.exhausted = true;
        break;
      }
      learned.merges.push_back(top->pair);
      merge(*top);
    }
    report_progress({.what = "merging", .done = total, .total = total});
    learned.tokens = tokens_.take();
    return learned;
  }

 private:
  struct Created {
    TokenPair pair;
    PlaceLists::List places;
  };

  // The pairs of bytes. They are few: their counts and words are found through an array.
  void add_first_candidates(const std::array<uint32_t, 256>& id_of_byte) {
    std::vector<uint8_t> byte_of_id(size_t(tokens_.size()));
    for (size_t byte = 0; byte < 256; ++byte) byte_of_id[id_of_byte[byte]] = uint8_t(byte);
    struct Sum {
      int64_t count = 0;
      uint32_t words = 0, last_word = UINT32_MAX;
      uint32_t* next = nullptr;
    };
    std::vector<Sum> sums(256 * 256);
    // Calls found(sum, word, new in this word) for each pair.
    const auto for_each_pair = [&](const auto& found) {
      for (Sum& sum : sums) sum.last_word = UINT32_MAX;
      for (uint32_t word = 0; word < words_.size(); ++word) {
        const std::span<const uint32_t> tokens = words_[word];
        for (size_t i = 0; i + 1 < tokens.size(); ++i) {
          Sum& sum = sums[size_t(byte_of_id[tokens[i]]) << 8 | byte_of_id[tokens[i + 1]]];
          found(sum, word, sum.last_word != word);
          sum.last_word = word;
        }
      }
    };
    for_each_pair([&](Sum& sum, uint32_t word, bool first) {
      sum.count += words_.count(word);
      sum.words += first;
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].words == 0) continue;
      const TokenPair pair = token_pair(id_of_byte[i >> 8], id_of_byte[i & 255]);
      counts_.add(pair, sums[i].count);
      queue_.push_back({sums[i].count, pair, lists_.add(sums[i].words)});
      sums[i].next = queue_.back().places.data();
    }
    for_each_pair([&](Sum& sum, uint32_t word, bool first) {
      if (first) *sum.next++ = word;
    });
    std::ranges::make_heap(queue_, later);
  }

  // The next pair to merge; none if no pair is frequent enough. Counts in the queue may be out of date: a candidate whose count has
  // changed since goes back with the present one.
  std::optional<Candidate> take_most_frequent() {
    while (!queue_.empty()) {
      std::ranges::pop_heap(queue_, later);
      const int64_t count = counts_[queue_.back().pair];
      if (count == queue_.back().count) {
        if (count < std::max<int64_t>(options_.min_frequency, 1)) return std::nullopt;
        const Candidate top = queue_.back();
        queue_.pop_back();
        return top;
      }
      queue_.back().count = count;
      std::ranges::push_heap(queue_, later);
    }
    return std::nullopt;
  }

  void merge(const Candidate& top) {
    const uint32_t left = left_of(top.pair), right = right_of(top.pair), joined = tokens_.add(tokens_[left] + tokens_[right]);
    const std::span<const uint32_t> places = top.places;
    const int64_t tasks = std::clamp<int64_t>(int64_t(places.size()) / kPlacesPerTask, 1, std::min(options_.threads, kMostTasks));
    if (size_t(tasks) > around_.size()) around_.resize(size_t(tasks));
    parallel_for(tasks, options_.threads, [&](int64_t task) {
      auto& [before, after] = around_[size_t(task)];
      const size_t begin = places.size() * size_t(task) / size_t(tasks), end = places.size() * size_t(task + 1) / size_t(tasks);
      for (const uint32_t word : places.subspan(begin, end - begin)) {
        const int64_t count = words_.count(word);
        words_.merge(
            word, left, right, joined, [&](uint32_t token) { before.add(token, word, count); },
            [&](uint32_t token) { after.add(token, word, count); });
      }
    });
    lists_.free(top.places);
    add_created(top.pair, joined, tasks);
  }

  // Counts the pairs that a merge destroyed and created, and adds the created ones to the queue.
  void add_created(TokenPair merged, uint32_t joined, int64_t tasks) {
    created_.clear();
    collect(&Around::before, tasks, [&](uint32_t token, int64_t count) {
      counts_.add(token_pair(token, left_of(merged)), -count);
      return token_pair(token, joined);
    });
    collect(&Around::after, tasks, [&](uint32_t token, int64_t count) {
      counts_.add(token_pair(right_of(merged), token), -count);
      return token_pair(joined, token);
    });
    for (const Created& created : created_) {
      const int64_t count = counts_[created.pair];
      if (count <= 0) continue;
      queue_.push_back({count, created.pair, created.places});
      std::ranges::push_heap(queue_, later);
    }
  }

  struct Around {
    Neighbours before, after;
  };

  // Sums the neighbours of one side over the tasks, and makes a list of words for each. `counted` takes the token and its count away from
  // the pair that it formed before, and returns the one that it forms now.
  template <class Counted>
  void collect(Neighbours Around::* side, int64_t tasks, const Counted& counted) {
    if (sums_.size() < size_t(tokens_.size())) sums_.resize(size_t(tokens_.size()) + 1024);
    neighbours_.clear();
    for (int64_t task = 0; task < tasks; ++task) {
      const Neighbours& part = around_[size_t(task)].*side;
      for (const uint32_t token : part.tokens()) {
        if (sums_[token].words == 0) neighbours_.push_back(token);
        sums_[token].count += part[token].count;
        sums_[token].words += part[token].words;
      }
    }
    for (const uint32_t token : neighbours_) {
      const TokenPair pair = counted(token, sums_[token].count);
      counts_.add(pair, sums_[token].count);
      created_.push_back({pair, lists_.add(sums_[token].words)});
      sums_[token] = {.next = created_.back().places.data()};
    }
    for (int64_t task = 0; task < tasks; ++task) {
      Neighbours& part = around_[size_t(task)].*side;
      for (const Neighbours::Place& place : part.places()) *sums_[place.token].next++ = place.word;
      part.clear();
    }
  }

  struct Sum {
    int64_t count = 0;
    uint32_t words = 0;
    uint32_t* next = nullptr;  // in the list of words
  };

  const MergeOptions options_;
  Tokens tokens_;
  MergedWords words_;
  PairCounts counts_;
  PlaceLists lists_;
  std::vector<Candidate> queue_;  // a heap
  // Of one merge:
  std::vector<Around> around_;  // by task
  std::vector<Sum> sums_;       // by token
  std::vector<uint32_t> neighbours_;
  std::vector<Created> created_;
};

}  // namespace

LearnedMerges learn_merges(WordCounts& counts, const MergeOptions& options) { return Learner(counts, options).run(); }

}  // namespace weft
