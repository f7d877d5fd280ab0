// Byte-level BPE: a word's bytes are tokens, and the pair whose merge was learned first is joined, the leftmost of
// equals, until none can be.
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
    bool ignore_merges = false;       // a word that is a token is that token
    bool fuse_unk = false;            // unknown bytes in a row are one unknown token
    std::optional<int32_t> unk = {};  // what a byte without a token becomes; none: the text is refused, or it is left out
    std::string unk_missing = {};     // where an unknown token is named that the vocabulary does not have
    std::string file = "tokenizer";   // whose vocabulary it is
  };
  struct Scratch {
    struct Symbol {
      int32_t id, previous, next;
      bool alive;
    };
    struct Candidate {
      int32_t rank, at, id;
    };
    bool leave_out = false;  // bytes without a token
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    StringMap<std::pair<uint32_t, uint32_t>> cache;  // a word's place and length in `cached`
    std::vector<int32_t> cached;
  };

  // `by_bytes`: tokens by the bytes they spell. `merges`: in the order they were learned; the last of equals counts.
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
