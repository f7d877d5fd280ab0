// The tokens that lie in parts of a text.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class Tokenizer;

namespace chat {

// 1 for every token that shares a byte with one of `parts` (first byte, last byte + 1). `ids` are those of `text`. Throws unsupported if
// the tokenizer changes the text, so that its tokens cannot be found in it.
std::vector<uint8_t> token_mask(const Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids,
                                std::span<const std::pair<size_t, size_t>> parts);

}  // namespace chat
}  // namespace weft
