// Python's str over UTF-8: length and index by code point, case, white space, classes of characters.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft::chat {

size_t code_points(std::string_view text);
size_t byte_offset(std::string_view text, size_t code_point);  // text.size() past the end
std::u32string decoded(std::string_view text);
std::string encoded(std::u32string_view codes);

bool is_space(char32_t code);
bool is_printable(char32_t code);
bool is_alphabetic(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
bool is_cased(char32_t code);
bool is_lower(char32_t code);
bool is_upper(char32_t code);

// Without the characters of `chars` (white space if there are none) at the ends.
std::string_view stripped(std::string_view text, const std::optional<std::string_view>& chars, bool left = true, bool right = true);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);   // str.title()
std::string swapped(std::string_view text);  // str.swapcase()

std::string escaped_html(std::string_view text);

}  // namespace weft::chat
