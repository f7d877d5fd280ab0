#include "cli/log_probabilities.h"

#include <charconv>
#include <cmath>

namespace weft::cli {

std::string shortest(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// nlohmann prints the shortest number that reads back as the same double: that double is the one closest to the f32's own shortest text.
nlohmann::ordered_json json_number(float value) {
  if (!std::isfinite(value)) return nullptr;
  const std::string text = shortest(value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace weft::cli
