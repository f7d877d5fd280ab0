#include "weft/io/tokenizer/bpe.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr size_t kLongestCached = 64;     // bytes; longer words rarely repeat
constexpr size_t kMostCached = 1u << 16;  // words; then the cache is cleared

uint64_t key_of(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }

// Heap order: the lowest rank on top, the leftmost of equal ranks first.
constexpr auto kLater = [](const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return std::pair(a.rank, a.at) > std::pair(b.rank, b.at);
};

}  // namespace

Bpe::Bpe(StringMap<int32_t> by_bytes, const std::vector<Merge>& merges, const Options& options)
    : by_bytes_(std::move(by_bytes)), options_(options) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = char(byte);
    const auto found = by_bytes_.find(std::string_view(&c, 1));
    by_byte_[byte] = found == by_bytes_.end() ? -1 : found->second;
  }
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank)
    merges_[key_of(merges[rank].left, merges[rank].right)] = {int32_t(rank), merges[rank].joined};
  if (!options_.ignore_merges) by_bytes_.clear();  // only used to look up whole words
}

const Bpe::Joined* Bpe::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const {
  if (options_.ignore_merges)
    if (const auto found = by_bytes_.find(word); found != by_bytes_.end()) return ids.push_back(found->second);
  if (word.size() > kLongestCached || scratch.leave_out) return merge(word, ids, scratch);
  if (const auto hit = scratch.cache.find(word); hit != scratch.cache.end()) {
    const auto first = scratch.cached.begin() + hit->second.first;
    ids.insert(ids.end(), first, first + hit->second.second);
    return;
  }
  const size_t before = ids.size();
  merge(word, ids, scratch);
  if (scratch.cache.size() == kMostCached) {
    scratch.cache.clear();
    scratch.cached.clear();
  }
  scratch.cache.emplace(word, std::pair(uint32_t(scratch.cached.size()), uint32_t(ids.size() - before)));
  scratch.cached.insert(scratch.cached.end(), ids.begin() + ptrdiff_t(before), ids.end());
}

// Fails: dropping the byte would silently encode another text.
void Bpe::refuse(std::string_view word, size_t at) const {
  size_t begin = at;
  while (begin > 0 && (uint8_t(word[begin]) & 0xC0) == 0x80) --begin;  // back to the start of the byte's character
  const Utf8Step step = utf8_step(word.substr(begin));
  fail(ErrorCode::invalid_argument, options_.file, "has no token for the character '",
       step.valid ? word.substr(begin, step.length) : word.substr(at, 1), "' (byte ", int(uint8_t(word[at])), ") and no unk_token");
}

// Makes one symbol per byte, linked to its neighbours.
void Bpe::start(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  bool unknown_before = false;
  for (size_t i = 0; i < word.size(); ++i) {
    int32_t id = by_byte_[uint8_t(word[i])];
    const bool unknown = id < 0;
    if (unknown) {
      if (!options_.unk_missing.empty())
        fail(ErrorCode::bad_file, options_.unk_missing, "is needed for byte ", int(uint8_t(word[i])), " but is not in the vocabulary");
      if (!options_.unk && !scratch.leave_out) refuse(word, i);
      if (!options_.unk || (options_.fuse_unk && unknown_before)) continue;
      id = *options_.unk;
    }
    unknown_before = unknown;
    const auto at = int32_t(symbols.size());
    symbols.push_back({id, at - 1, at + 1, true});
  }
  if (!symbols.empty()) symbols.back().next = -1;
}

void Bpe::merge(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const {
  check(word.size() < (size_t(1) << 31), "tokenizer", "a word of ", word.size(), " bytes is too long");
  start(word, scratch);
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  const auto consider = [&](int32_t left, int32_t right) {
    if (const Joined* joined = find(symbols[size_t(left)].id, symbols[size_t(right)].id))
      heap.push_back({joined->rank, left, joined->id});
    else
      return false;
    return true;
  };
  for (int32_t i = 0; i + 1 < int32_t(symbols.size()); ++i) consider(i, i + 1);
  std::make_heap(heap.begin(), heap.end(), kLater);
  const auto push = [&](int32_t left, int32_t right) {
    if (consider(left, right)) std::push_heap(heap.begin(), heap.end(), kLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kLater);
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    auto& left = symbols[size_t(top.at)];
    if (!left.alive || left.next < 0) continue;
    auto& right = symbols[size_t(left.next)];
    const Joined* joined = find(left.id, right.id);
    if (!joined || joined->id != top.id) continue;  // stale: one of the two symbols was merged meanwhile
    left.id = top.id;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) symbols[size_t(left.next)].previous = top.at;
    if (left.previous >= 0) push(left.previous, top.at);
    if (left.next >= 0) push(top.at, left.next);
  }
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[size_t(i)].next) ids.push_back(symbols[size_t(i)].id);
}

}  // namespace weft
