// Unicode's normal forms, with the tables of Unicode 9 that `tokenizers` has.
#pragma once

#include <string>
#include <string_view>

namespace weft {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

std::string normal_form(std::string_view text, NormalForm form);  // text must be valid UTF-8

}  // namespace weft
