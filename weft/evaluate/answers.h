// Comparison of a generated text with a right answer, as SQuAD does it: both are put into lower case, ASCII punctuation and the articles
// a, an and the are removed, and white space separates words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

std::string normalised_answer(std::string_view text);

// 1 if the normalised texts are equal, else 0; the best of several targets.
double exact_match(std::string_view answer, const std::vector<std::string>& targets);

// The harmonic mean of precision and recall of the answer's words; the best of several targets. If one of the two has no words left, 1 if
// both have none, else 0.
double word_f1(std::string_view answer, const std::vector<std::string>& targets);

}  // namespace weft
