#include "weft/serve/text_offsets.h"

#include <algorithm>

#include "weft/io/tokenizer/utf8.h"

namespace weft::serve {
namespace {

constexpr size_t kNear = 16;  // bytes to search ahead: spaces around special tokens and normalized text belong to no token

int64_t characters_of(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (uint8_t(byte) & 0xc0) != 0x80; });
}

struct Place {
  size_t begin = 0, size = 0;
};

// Finds a token's bytes in `text`: at its start, at its start without the space before a word, or at most kNear bytes later. Bytes that are
// not found, such as those that a normalizer changed, are assumed to be at the start.
Place place_of(std::string_view bytes, std::string_view text) {
  if (text.starts_with(bytes)) return {0, bytes.size()};
  if (bytes.starts_with(' ') && text.starts_with(bytes.substr(1))) return {0, bytes.size() - 1};
  const size_t found = text.substr(0, bytes.size() + kNear).find(bytes);
  return found != text.npos ? Place{found, bytes.size()} : Place{0, std::min(text.size(), bytes.size())};
}

// A special token may be spelled out in the text after white space; one that is not, such as BOS, takes no place.
Place place_of_special(std::string_view spelling, std::string_view text) {
  const size_t begin = std::min(text.size(), text.find_first_not_of(" \t\r\n"));
  return text.substr(begin).starts_with(spelling) ? Place{begin, spelling.size()} : Place();
}

}  // namespace

void TextLength::add(std::string_view bytes) {
  cut_ += bytes;
  std::string whole;
  drain_utf8(cut_, whole, /*more_follows=*/true);
  whole_ += characters_of(whole);
}

void TextLength::add_token(const Tokenizer* tokenizer, int32_t id) {
  if (tokenizer && !tokenizer->is_special(id)) add(tokenizer->bytes_of(id));
}

std::vector<int64_t> prompt_offsets(const Tokenizer* tokenizer, std::span<const int32_t> ids, std::string_view text) {
  std::vector<int64_t> offsets;
  int64_t characters = 0;  // before `text`, of which the beginning is removed
  for (int32_t id : ids) {
    Place place;
    if (tokenizer)
      place = tokenizer->is_special(id) ? place_of_special(tokenizer->token_of(id), text) : place_of(tokenizer->bytes_of(id), text);
    const auto [begin, size] = place;
    offsets.push_back(characters + characters_of(text.substr(0, begin)));
    characters += characters_of(text.substr(0, begin + size));
    text.remove_prefix(begin + size);
  }
  return offsets;
}

}  // namespace weft::serve
