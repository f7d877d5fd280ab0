// "Did you mean": the known word nearest to an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The word with the smallest Levenshtein distance to `wrong`, at most a third of its letters or two; else "".
std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words);

// Joins the words of a list with commas.
std::vector<std::string> words_in(std::string_view list);

}  // namespace weft
