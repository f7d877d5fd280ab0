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

using Span = std::pair<size_t, size_t>;  // first byte, last byte + 1

// The bytes of each token of `ids`, which are those of `text`. Throws unsupported if the tokenizer changes the text, so that its tokens
// cannot be found in it.
std::vector<Span> token_spans(const Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids);

// 1 for every token of a part, as transformers counts them: from the token with the first byte of its first character to the one with the
// first byte of its last character. A token across an edge counts; of a last character in several tokens only the first does.
std::vector<uint8_t> token_mask(std::span<const Span> tokens, std::string_view text, std::span<const Span> parts);

}  // namespace chat
}  // namespace weft
