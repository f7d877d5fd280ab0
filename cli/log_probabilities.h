// Log-probabilities as the commands print them: the shortest decimal number that reads back as the same f32.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "weft/generate/log_probability.h"

namespace weft::cli {

std::string shortest(float value);
// A number that JSON prints as shortest(); null for an infinity.
nlohmann::ordered_json json_number(float value);

// Of a list: the sum in float64, in order.
template <class List, class F>
double sum_of(const List& list, F&& value) {
  double sum = 0;
  for (const auto& each : list) sum += double(value(each));
  return sum;
}

}  // namespace weft::cli
