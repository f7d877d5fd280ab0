#include "cli/log_probabilities.h"

#include <charconv>
#include <cmath>
#include <numeric>

#include "weft/base/check.h"

namespace weft::cli {
namespace {

template <class T>
std::string shortest_of(T value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

std::string shortest(float value) { return shortest_of(value); }
std::string shortest(double value) { return shortest_of(value); }

std::string json_number(float value) { return std::isfinite(value) ? shortest(value) : "null"; }
std::string json_number(double value) { return std::isfinite(value) ? shortest(value) : "null"; }

std::string json_list(const std::vector<float>& values) {
  std::string text = "[";
  for (float value : values) {
    if (text.size() > 1) text += ",";
    text += json_number(value);
  }
  return text + "]";
}

double sum_of(const std::vector<float>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

std::string with_member(std::string object, std::string_view key, std::string_view value) {
  object.pop_back();  // the brace
  return join(object, object.size() > 1 ? "," : "", "\"", key, "\":", value, "}");
}

}  // namespace weft::cli
