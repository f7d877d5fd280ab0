// GPT-2's alphabet: each byte is represented by one printable character, so that any bytes can be written as text. Printable Latin-1
// represents itself; the other 68 bytes are U+0100 onwards in order. A space is U+0120, "Ġ".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

std::string_view letter_of_byte(uint8_t byte);  // its character, in UTF-8

// The bytes that `token` spells; empty if a character is not in the alphabet.
std::optional<std::string> bytes_spelled(std::string_view token);

}  // namespace weft
