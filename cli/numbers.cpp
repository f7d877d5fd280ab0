#include "cli/numbers.h"

#include <charconv>
#include <cstdint>

#include "weft/base/check.h"

namespace weft::cli {
namespace {

template <class T>
bool spells(const std::string& text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::to_string(value) == text;
}

std::string wrong_integer(const std::string& text) {
  return spells<int64_t>(text) ? "" : join("'", text, "' is not an integer from -2^63 to 2^63 - 1");
}

std::string wrong_unsigned(const std::string& text) {
  return spells<uint64_t>(text) ? "" : join("'", text, "' is not an integer from 0 to 2^64 - 1");
}

std::string wrong_number(const std::string& text) {
  double value = 0;
  return CLI::detail::lexical_cast(text, value) ? "" : join("'", text, "' is not a number");
}

}  // namespace

void check_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name() == "INT") option->check(&wrong_integer);
    if (option->get_type_name() == "UINT") option->check(&wrong_unsigned);
    if (option->get_type_name() == "FLOAT") option->check(&wrong_number);
  }
  for (CLI::App* command : app.get_subcommands({})) check_numbers(*command);
}

}  // namespace weft::cli
