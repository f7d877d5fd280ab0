#include "weft/io/tokenizer/byte_alphabet.h"

#include <array>

#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

struct Alphabet {
  std::array<std::string, 256> letters;
  std::array<int16_t, 0x144> bytes;  // by code point; -1: not in the alphabet

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t code = printable ? char32_t(byte) : next++;
      append_utf8(letters[size_t(byte)], code);
      bytes[code] = int16_t(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

std::string_view letter_of_byte(uint8_t byte) { return alphabet().letters[byte]; }

std::optional<std::string> bytes_spelled(std::string_view token) {
  const auto& bytes = alphabet().bytes;
  std::string out;
  while (!token.empty()) {
    const Utf8Step step = utf8_step(token);
    if (!step.valid || step.code >= bytes.size() || bytes[step.code] < 0) return std::nullopt;
    out += char(bytes[step.code]);
    token.remove_prefix(step.length);
  }
  return out;
}

}  // namespace weft
