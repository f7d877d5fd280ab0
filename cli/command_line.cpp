#include "cli/command_line.h"

#include <string_view>

namespace weft::cli {
namespace {

std::string quoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  std::string out = "'";
  for (char c : word) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

}  // namespace

std::string command_line(int argc, const char* const* argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) {
    if (i > 0) out += ' ';
    out += quoted(argv[i]);
  }
  return out;
}

}  // namespace weft::cli
