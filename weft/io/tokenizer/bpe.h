// BPE: a word starts as its bytes (byte-level) or its characters (SentencePiece's kind), and the pair with the lowest merge rank, the
// leftmost of equals, is merged until no pair can be.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/io/tokenizer/joins.h"
#include "weft/io/tokenizer/merge_queue.h"
#include "weft/io/tokenizer/merge_table.h"
#include "weft/io/tokenizer/word_cache.h"

namespace weft {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

class Bpe {
 public:
  enum class Alphabet { bytes, characters };
  struct Options {
    Alphabet alphabet = Alphabet::bytes;
    bool ignore_merges = false;       // a word in the vocabulary is one token, without merging
    bool fuse_unk = false;            // consecutive unknown symbols become one unknown token
    bool byte_fallback = false;       // a character without a token becomes the tokens <0x00> to <0xFF> of its bytes
    std::optional<int32_t> unk = {};  // replaces a symbol without a token; none: an error, or the symbol is left out
    std::string unk_missing = {};     // place in the file of an unk_token that the vocabulary lacks
    std::string file = "tokenizer";   // file of the vocabulary, for messages
  };
  struct Scratch {
    struct Symbol {
      int32_t id, previous, next;
      bool alive;
    };
    bool leave_out = false;  // leave out symbols without a token
    std::vector<Symbol> symbols;
    std::vector<int32_t> ranks;
    MergeQueue queue;
    WordCache cache;
  };

  // `tokens`: by the text they spell (byte-level: the bytes). `merges`: in the order they were learned; the last of duplicates counts.
  struct Merge {
    int32_t left, right, joined;
  };
  Bpe() = default;
  Bpe(StringMap<int32_t> tokens, const std::vector<Merge>& merges, const Options& options);

  void encode(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const;

  // Whether a text of characters may be encoded in two parts between `left` and `right` (weft/io/tokenizer/joins.h).
  bool splits() const { return splits_; }  // false: nowhere
  bool may_join(char32_t left, char32_t right) const {
    return joins_.contains(left, right) || (!every_byte_ && id_of(left) < 0 && id_of(right) < 0);
  }

 private:
  int32_t id_of(char32_t character) const;  // -1: none
  void find_joins(const std::vector<Merge>& merges);
  void encode_part(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const;
  void start_bytes(std::string_view word, Scratch& scratch) const;
  void start_characters(std::string_view word, Scratch& scratch) const;
  bool falls_back(std::string_view character, Scratch& scratch) const;
  void require_unk(std::string_view character, const Scratch& scratch, int byte) const;
  void merge(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const;
  void merge_few(std::vector<int32_t>& ids, Scratch& scratch) const;
  void merge_many(std::vector<int32_t>& ids, Scratch& scratch) const;

  StringMap<int32_t> tokens_;
  int32_t by_byte_[256];                              // byte-level: tokens of one byte; else of one ASCII character; -1: none
  int32_t fallback_[256];                             // the tokens <0x00> to <0xFF>
  std::unordered_map<char32_t, int32_t> characters_;  // tokens of one character past ASCII
  bool every_byte_ = false;                           // byte_fallback never fails
  bool splits_ = false;
  Joins joins_;
  MergeTable merges_;
  Options options_;
};

}  // namespace weft
