// Finds places where a text can be cut so that the ids of the two parts, concatenated, are those of the whole text.
//
// There are two kinds of places, x being a character that is not white space:
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
// Normalisation (NFC, NFD) has a boundary before a space and after a newline: neither composes with its neighbours. Added tokens must not
// cross the place; allows_cuts() tells whether a token could.
#pragma once

#include <cstddef>
#include <string_view>

#include "weft/io/tokenizer/added_tokens.h"

namespace weft {

bool splits_at_cuts(std::string_view pattern);  // as spelled in tokenizer.json
bool allows_cuts(const AddedToken& token, std::string_view spelling);

// Whether the text can be cut at byte `at`. It need not be UTF-8 elsewhere.
bool is_cut(std::string_view text, size_t at);

// The last cut in (0, most]; 0 if there is none.
size_t last_cut(std::string_view text, size_t most);

}  // namespace weft
