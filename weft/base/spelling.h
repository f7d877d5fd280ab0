// "Did you mean": the known word nearest to one that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The word with the fewest edits of one letter (Levenshtein) to `wrong`, at most a third of its letters or two; else "".
std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words);

// The words of a list with commas between them.
std::vector<std::string> words_in(std::string_view list);

}  // namespace weft
