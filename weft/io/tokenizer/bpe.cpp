#include "weft/io/tokenizer/bpe.h"

#include <algorithm>
#include <unordered_set>

#include "weft/base/check.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr size_t kMostKept = size_t(1) << 20;  // symbols

void add_symbol(Bpe::Scratch& scratch, int32_t id) {
  const auto at = int32_t(scratch.symbols.size());
  scratch.symbols.push_back({id, at - 1, at + 1, true});
}

}  // namespace

Bpe::Bpe(StringMap<int32_t> tokens, const std::vector<Merge>& merges, const Options& options)
    : tokens_(std::move(tokens)), options_(options) {
  const auto find = [&](std::string_view text) {
    const auto found = tokens_.find(text);
    return found == tokens_.end() ? -1 : found->second;
  };
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kHex = "0123456789ABCDEF";
    const char c = char(byte);
    by_byte_[byte] = find(std::string_view(&c, 1));
    fallback_[byte] = find(std::string{'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'});
  }
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank)
    merges_.put(merges[rank].left, merges[rank].right, {int32_t(rank), merges[rank].joined});
  if (options_.alphabet == Alphabet::characters) {
    for (const auto& [text, id] : tokens_)
      if (const Utf8Step step = text.empty() ? Utf8Step{} : utf8_step(text); step.valid && step.length == text.size() && step.length > 1)
        characters_[step.code] = id;
    every_byte_ = options_.byte_fallback && std::ranges::none_of(fallback_, [](int32_t id) { return id < 0; });
    find_joins(merges);
  }
  if (!options_.ignore_merges) tokens_.clear();  // only used to look up whole words
}

// The pairs of characters that a merge joins. With ignore_merges a word is looked up as a whole, so it is never split.
void Bpe::find_joins(const std::vector<Merge>& merges) {
  std::unordered_map<int32_t, std::string_view> spelling;
  for (const auto& [text, id] : tokens_) spelling[id] = text;
  splits_ = !options_.ignore_merges;
  std::unordered_set<int32_t> others;  // tokens that do not spell the characters they stand for
  if (options_.unk) others.insert(*options_.unk);
  if (options_.byte_fallback) others.insert(std::begin(fallback_), std::end(fallback_));
  for (const Merge& merge : merges) {
    const std::string_view left = spelling[merge.left], right = spelling[merge.right];
    if (left.empty() || right.empty()) continue;  // no symbol is empty
    if (others.contains(merge.left) || others.contains(merge.right)) splits_ = false;
    size_t last = left.size() - 1;
    while (last > 0 && (left[last] & 0xc0) == 0x80) --last;
    joins_.add(utf8_step(left.substr(last)).code, utf8_step(right).code);
  }
}

int32_t Bpe::id_of(char32_t character) const {
  if (character < 128) return by_byte_[character];
  const auto found = characters_.find(character);
  return found == characters_.end() ? -1 : found->second;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const {
  if (!splits_) return encode_part(word, ids, scratch);
  size_t begin = 0;
  char32_t before = 0;
  for (size_t at = 0; at < word.size();) {
    const auto first = uint8_t(word[at]);
    const Utf8Step step = first < 0x80 ? Utf8Step{first, 1, true, false} : utf8_step(word.substr(at));
    if (at > begin && !may_join(before, step.code)) {
      encode_part(word.substr(begin, at - begin), ids, scratch);
      begin = at;
    }
    before = step.code;
    at += step.length;
  }
  if (begin < word.size()) encode_part(word.substr(begin), ids, scratch);
}

void Bpe::encode_part(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const {
  if (options_.ignore_merges)
    if (const auto found = tokens_.find(word); found != tokens_.end()) return ids.push_back(found->second);
  if (word.size() == 1 && by_byte_[uint8_t(word[0])] >= 0) return ids.push_back(by_byte_[uint8_t(word[0])]);
  if (word.size() > WordCache::kLongest || scratch.leave_out) return merge(word, ids, scratch);
  const uint64_t hash = WordCache::hash_of(word);
  if (const auto hit = scratch.cache.find(word, hash); hit.ids) {
    ids.insert(ids.end(), hit.ids, hit.ids + hit.count);
    return;
  }
  const size_t before = ids.size();
  merge(word, ids, scratch);
  scratch.cache.put(word, hash, std::span(ids).subspan(before));
}

// Fails if a symbol without a token cannot become the unknown token: dropping it would silently encode another text.
void Bpe::require_unk(std::string_view character, const Scratch& scratch, int byte) const {
  if (!options_.unk_missing.empty())
    fail(ErrorCode::bad_file, options_.unk_missing, "is needed for byte ", byte, " but is not in the vocabulary");
  if (!options_.unk && !scratch.leave_out)
    fail(ErrorCode::invalid_argument, options_.file, "has no token for the character '", character, "' (byte ", byte, ") and no unk_token");
}

// Makes one symbol per byte.
void Bpe::start_bytes(std::string_view word, Scratch& scratch) const {
  bool unknown_before = false;
  for (size_t i = 0; i < word.size(); ++i) {
    int32_t id = by_byte_[uint8_t(word[i])];
    const bool unknown = id < 0;
    if (unknown) {
      size_t begin = i;
      while (begin > 0 && (uint8_t(word[begin]) & 0xC0) == 0x80) --begin;  // back to the start of the byte's character
      const Utf8Step step = utf8_step(word.substr(begin));
      require_unk(step.valid ? word.substr(begin, step.length) : word.substr(i, 1), scratch, int(uint8_t(word[i])));
      if (!options_.unk || (options_.fuse_unk && unknown_before)) continue;
      id = *options_.unk;
    }
    unknown_before = unknown;
    add_symbol(scratch, id);
  }
}

// Adds the byte tokens of a character; false if one of its bytes has none.
bool Bpe::falls_back(std::string_view character, Scratch& scratch) const {
  if (!options_.byte_fallback) return false;
  for (const char c : character)
    if (fallback_[uint8_t(c)] < 0) return false;
  for (const char c : character) add_symbol(scratch, fallback_[uint8_t(c)]);
  return true;
}

// Makes one symbol per character. As in `tokenizers`, an unknown token is added when the next character with a token of its own comes,
// after the byte tokens of characters in between.
void Bpe::start_characters(std::string_view word, Scratch& scratch) const {
  bool unknown = false;
  const auto add_unknown = [&] {
    if (unknown) add_symbol(scratch, *options_.unk);
    unknown = false;
  };
  for (size_t at = 0; at < word.size();) {
    const Utf8Step step = utf8_step(word.substr(at));
    const std::string_view character = word.substr(at, step.length);
    at += step.length;
    if (const int32_t id = id_of(step.code); id >= 0) {
      add_unknown();
      add_symbol(scratch, id);
    } else if (!falls_back(character, scratch)) {
      require_unk(character, scratch, int(uint8_t(character[0])));
      if (!options_.unk) continue;
      if (!options_.fuse_unk) add_unknown();
      unknown = true;
    }
  }
  add_unknown();
}

void Bpe::merge(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const {
  constexpr size_t kFew = 48;  // up to here a scan for the lowest rank is faster than a queue
  check(word.size() < (size_t(1) << 31), "tokenizer", "a word of ", word.size(), " bytes is too long");
  scratch.symbols.clear();
  options_.alphabet == Alphabet::bytes ? start_bytes(word, scratch) : start_characters(word, scratch);
  scratch.symbols.size() <= kFew ? merge_few(ids, scratch) : merge_many(ids, scratch);
}

// ranks[i] is the rank of the pair that starts at symbol i. O(n^2).
void Bpe::merge_few(std::vector<int32_t>& ids, Scratch& scratch) const {
  constexpr int32_t kNone = INT32_MAX;
  auto& symbols = scratch.symbols;
  auto& ranks = scratch.ranks;
  const auto rank = [&](size_t i) {
    const auto* joined = i + 1 < symbols.size() ? merges_.find(symbols[i].id, symbols[i + 1].id) : nullptr;
    if (joined) symbols[i].next = joined->id;  // `next` holds the joined token here
    return joined ? joined->rank : kNone;
  };
  ranks.resize(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) ranks[i] = rank(i);
  while (symbols.size() > 1) {
    const size_t best = size_t(std::ranges::min_element(ranks) - ranks.begin());
    if (ranks[best] == kNone) break;
    symbols[best].id = symbols[best].next;
    symbols.erase(symbols.begin() + ptrdiff_t(best) + 1);
    ranks.erase(ranks.begin() + ptrdiff_t(best) + 1);
    ranks[best] = rank(best);
    if (best > 0) ranks[best - 1] = rank(best - 1);
  }
  for (const auto& symbol : symbols) ids.push_back(symbol.id);
}

// A queue of pairs over linked symbols. O(n log n).
void Bpe::merge_many(std::vector<int32_t>& ids, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  symbols.back().next = -1;
  const auto consider = [&](int32_t left, int32_t right) {
    if (const auto* joined = merges_.find(symbols[size_t(left)].id, symbols[size_t(right)].id)) queue.push(joined->rank, left);
  };
  for (int32_t i = 0; i + 1 < int32_t(symbols.size()); ++i) consider(i, i + 1);
  for (MergeQueue::Entry entry; queue.pop(entry);) {
    auto& left = symbols[size_t(entry.place)];
    if (!left.alive || left.next < 0) continue;
    auto& right = symbols[size_t(left.next)];
    const auto* joined = merges_.find(left.id, right.id);
    if (!joined || joined->rank != entry.rank) continue;  // one of the two symbols was merged meanwhile
    left.id = joined->id;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) symbols[size_t(left.next)].previous = entry.place;
    if (left.previous >= 0) consider(left.previous, entry.place);
    if (left.next >= 0) consider(entry.place, left.next);
  }
  for (int32_t i = 0; i >= 0; i = symbols[size_t(i)].next) ids.push_back(symbols[size_t(i)].id);
  if (symbols.size() > kMostKept) {  // do not hold the memory of a text that is one word
    scratch.symbols = {};
    scratch.queue = {};
  }
}

}  // namespace weft
