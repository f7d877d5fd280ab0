// Finds places where a text can be cut so that the ids of the two parts, concatenated, are those of the whole text.
//
// Byte-level BPE has two kinds of places, x being a character that is not white space:
//   before a space     x | ' '
//   after a newline    x '\n' | y     where y is an ASCII letter or digit, or not ASCII and not white space
//
// Why the words stay the same, for the patterns in cuts.cpp:
//   1. No match crosses the place: none has a space after a character that is not white space, nor anything but white space and '/' after
//      a newline. So both parts start where a match of the whole text starts.
//   2. A match depends on nothing before it: there are no lookbehinds and no anchors.
//   3. A match does not depend on what follows the place. Repeats stop there in both texts. The one lookahead, \s+(?!\S), looks past a run
//      of white space: before x it ends in the first part anyway; the single newline is a word of its own by \s+ in the whole text and by
//      \s+(?!\S) at the end of the first part, or it belongs to x ([\r\n]*) in both.
// Normalisation (NFC, NFD) has a boundary before a space and after a newline: neither composes with its neighbours.
//
// BPE of characters (SentencePiece's kind), where normalisation only prepends a mark and replaces each space by one, has a place x | y
// between two characters that no merge joins (weft/io/tokenizer/joins.h), or where y starts a word (Metaspace). The second part is encoded
// with Edge::cut, so nothing is prepended to it.
//
// Added tokens must see the same text. A place is not one to cut at
//   - between two characters that are adjacent in an added token: no token crosses the place;
//   - within white space, which a token with lstrip or rstrip may take: x is not white space, and y is not, unless it starts a run;
//   - beside a token: after it a part of its own would begin, and rstrip and single_word look there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/tokenizer/added_tokens.h"
#include "weft/io/tokenizer/bpe.h"
#include "weft/io/tokenizer/joins.h"
#include "weft/io/tokenizer/normalizer.h"
#include "weft/io/tokenizer/pre_tokenizer.h"

namespace weft {

class Cuts {
 public:
  Cuts() = default;  // nowhere
  Cuts(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer, const Bpe& bpe);

  // `spelling`: the text that is matched, the token's content or its normal form.
  void add(const AddedToken& token, std::string_view spelling);

  // The last place in (0, most]; 0 if there is none. The text need not be UTF-8.
  size_t last(std::string_view text, size_t most, const Bpe& bpe) const;
  bool at(std::string_view text, size_t at, const Bpe& bpe) const;

 private:
  enum class Kind { none, byte_level, characters };
  void add_to_byte_level(const AddedToken& token, std::string_view spelling);
  bool joined(char32_t left, char32_t right, const Bpe& bpe) const;
  bool beside_token(std::string_view text, size_t at) const;

  Kind kind_ = Kind::none;
  bool after_newlines_ = true;  // byte-level: no token takes the white space before it
  // Characters: the text that stands for a space. A place is compared with spaces for marks.
  std::string mark_;
  bool splits_at_marks_ = false, splits_elsewhere_ = false;
  Joins within_tokens_;
  StringMap<bool> beside_;       // tokens that no place may be beside
  std::vector<size_t> lengths_;  // of those
};

bool splits_at_cuts(std::string_view pattern);  // as spelled in tokenizer.json

// The places of byte-level BPE: whether the text can be cut at byte `at`, and the last place in (0, most] (0 if there is none). The text
// need not be UTF-8.
bool is_cut(std::string_view text, size_t at);
size_t last_cut(std::string_view text, size_t most);

}  // namespace weft
