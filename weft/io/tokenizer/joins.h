// Which characters of a text can end up in one token of a BPE vocabulary without pre-tokenization.
//
// A symbol always spells the characters it stands for. A merge therefore crosses the place between the characters x and y only if its
// left token ends in x and its right token starts with y. If the vocabulary has no merge of that kind, the symbols on the two sides never
// meet, so the text can be encoded in two parts there. In Llama 2's vocabulary that holds for every place before a run of '▁' (no token
// has '▁' after another character), and for most pairs of Chinese characters.
//
// Characters without a token of their own become byte tokens or unknown tokens. Neither spells its characters: usable() is false if they
// take part in a merge. Adjacent unknown characters may become one token (fuse_unk), so no place between two of them is one to cut at,
// unless every byte has a token.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/io/tokenizer/merge_table.h"

namespace weft {

class Joins {
 public:
  // A set of characters' pairs.
  void add(char32_t left, char32_t right);
  bool contains(char32_t left, char32_t right) const {
    const size_t l = index(left), r = index(right);
    if (l < kCommon && r < kCommon) return common_[l * kCommon + r];
    return in_others(left, right);
  }

 private:
  // ASCII and '▁': pairs of them are looked up in a table that fits in the L1 cache.
  static constexpr size_t kCommon = 129;
  static constexpr char32_t kMark = 0x2581;
  static size_t index(char32_t c) { return c < 128 ? c : c == kMark ? 128 : kCommon; }
  static uint64_t key_of(char32_t left, char32_t right) { return uint64_t(left) << 32 | right; }
  bool in_others(char32_t left, char32_t right) const;
  void grow();

  std::bitset<kCommon * kCommon> common_;
  std::vector<uint64_t> others_;  // open addressing; 0: empty (U+0000 U+0000 is in common_)
  size_t count_ = 0;
};

}  // namespace weft
