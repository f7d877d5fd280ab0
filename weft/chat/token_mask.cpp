#include "weft/chat/token_mask.h"

#include <algorithm>
#include <optional>

#include "weft/base/check.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft::chat {
namespace {

constexpr size_t kMostUnknown = 64;  // tokens in a row that are not spelled as in the text
constexpr size_t kWindow = 4096;     // bytes in which the next known token must follow

// The first byte of a part's last character.
size_t last_character(std::string_view text, const Span& part) {
  size_t at = part.second - 1;
  while (at > part.first && (uint8_t(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Finds each token's bytes in the text. They follow each other, except for
// - a space that the tokenizer puts before a text: the token has it, the text has not;
// - white space around an added token that strips it: the text has it, no token has;
// - characters without a token, or that the tokenizer normalizes: their tokens (`waiting_`) reach to the next token that is found.
class Aligner {
 public:
  Aligner(const Tokenizer& tokenizer, std::string_view text) : tokenizer_(tokenizer), text_(text) {}

  std::vector<Span> spans(std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      if (!found(tokenizer_.bytes_of(id))) {
        if (++waiting_ > kMostUnknown) refuse(id);
        spans_.emplace_back(at_, at_);
      }
      previous_ = id;
    }
    if (waiting_ > 0 && at_ == text_.size()) refuse(ids.back());
    settle(text_.size());
    return std::move(spans_);
  }

 private:
  [[noreturn]] void refuse(int32_t id) const {
    fail(ErrorCode::unsupported, "chat template", "the generation blocks cannot be marked: the tokenizer changes the text, so that token ",
         id, " is not found in it near byte ", at_);
  }

  bool found(std::string_view bytes) {
    const std::string_view inner = bytes.starts_with(" ") ? bytes.substr(1) : bytes;
    return waiting_ > 0 ? found_later(bytes) || found_later(inner) : follows(bytes) || follows(inner) || follows_blanks(bytes);
  }

  bool add(size_t first, size_t last) {
    spans_.emplace_back(first, last);
    at_ = last;
    return true;
  }

  bool follows(std::string_view bytes) { return text_.substr(at_).starts_with(bytes) && add(at_, at_ + bytes.size()); }

  // The blanks belong to a special token before them, which strips them, else to this token.
  bool follows_blanks(std::string_view bytes) {
    size_t first = at_;
    while (first < text_.size() && is_blank(text_[first])) ++first;
    if (!text_.substr(first).starts_with(bytes)) return false;
    if (previous_ && tokenizer_.is_special(*previous_)) spans_.back().second = at_ = first;
    return add(at_, first + bytes.size());
  }

  bool found_later(std::string_view bytes) {
    const size_t found = bytes.empty() ? text_.npos : text_.substr(0, std::min(at_ + kWindow, text_.size())).find(bytes, at_ + 1);
    if (found == text_.npos) return false;
    settle(found);
    return add(found, found + bytes.size());
  }

  // Ends the tokens that wait at `last`.
  void settle(size_t last) {
    for (; waiting_ > 0; --waiting_) spans_[spans_.size() - waiting_] = {at_, last};
  }

  const Tokenizer& tokenizer_;
  const std::string_view text_;
  std::vector<Span> spans_;
  std::optional<int32_t> previous_;
  size_t at_ = 0, waiting_ = 0;
};

}  // namespace

std::vector<Span> token_spans(const Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids) {
  return Aligner(tokenizer, text).spans(ids);
}

std::vector<uint8_t> token_mask(std::span<const Span> tokens, std::string_view text, std::span<const Span> parts) {
  std::vector<uint8_t> mask;
  mask.reserve(tokens.size());
  auto part = parts.begin();
  for (const auto& [first, last] : tokens) {
    while (part != parts.end() && (part->first == part->second || last_character(text, *part) < first)) ++part;
    mask.push_back(part != parts.end() && part->first < last);
  }
  return mask;
}

}  // namespace weft::chat
