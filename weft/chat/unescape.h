// String literals of templates, with the escapes of Python.
#pragma once

#include <string>
#include <string_view>

namespace weft::chat {

// The text of a literal without its quotes. Throws Trouble for an escape that is cut short or names no character.
std::string unescaped(std::string_view literal);

}  // namespace weft::chat
