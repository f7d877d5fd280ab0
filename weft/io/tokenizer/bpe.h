// Byte-level BPE: a word starts as its bytes, and the pair with the lowest merge rank, the leftmost of equals, is merged until no pair can
// be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

class Bpe {
 public:
  struct Options {
    bool ignore_merges = false;       // a word in the vocabulary is one token, without merging
    bool fuse_unk = false;            // consecutive unknown bytes become one unknown token
    std::optional<int32_t> unk = {};  // replaces a byte without a token; none: an error, or the byte is left out
    std::string unk_missing = {};     // place in the file of an unk_token that the vocabulary lacks
    std::string file = "tokenizer";   // file of the vocabulary, for messages
  };
  struct Scratch {
    struct Symbol {
      int32_t id, previous, next;
      bool alive;
    };
    struct Candidate {
      int32_t rank, at, id;
    };
    bool leave_out = false;  // leave out bytes without a token
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    StringMap<std::pair<uint32_t, uint32_t>> cache;  // offset and length of a word's ids in `cached`
    std::vector<int32_t> cached;
  };

  // `by_bytes`: tokens by the bytes they spell. `merges`: in the order they were learned; the last of duplicates counts.
  struct Merge {
    int32_t left, right, joined;
  };
  Bpe() = default;
  Bpe(StringMap<int32_t> by_bytes, const std::vector<Merge>& merges, const Options& options);

  void encode(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const;

 private:
  struct Joined {
    int32_t rank, id;
  };
  const Joined* find(int32_t left, int32_t right) const;
  void start(std::string_view word, Scratch& scratch) const;
  [[noreturn]] void refuse(std::string_view word, size_t at) const;
  void merge(std::string_view word, std::vector<int32_t>& ids, Scratch& scratch) const;

  StringMap<int32_t> by_bytes_;
  int32_t by_byte_[256];  // -1: none
  std::unordered_map<uint64_t, Joined> merges_;
  Options options_;
};

}  // namespace weft
