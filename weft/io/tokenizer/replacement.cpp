#include "weft/io/tokenizer/replacement.h"

#include "weft/base/check.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr size_t kLongest = 1000;  // bytes of a pattern's text and of a replacement; those of real files have a few

// A replacement by a longer text makes a text longer, and a sequence of them more so: an untrusted file must not take all memory.
size_t most_bytes(size_t text) { return 64 * text + 4096; }

void check_length(const std::string& where, std::string_view what, std::string_view text) {
  if (text.size() > kLongest) fail(ErrorCode::bad_file, where, "has ", what, " of ", text.size(), " bytes, the limit is ", kLongest);
}

}  // namespace

Replacement Replacement::of_text(const std::string& where, std::string text, std::string content) {
  if (text.empty()) fail(ErrorCode::bad_file, where, "is an empty pattern");
  check_length(where, "a pattern", text);
  check_length(where, "a replacement", content);
  Replacement made;
  made.where_ = where;
  made.content_ = std::move(content);
  made.literal_ = std::move(text);
  return made;
}

Replacement Replacement::of_regex(const std::string& where, std::string_view pattern, std::string content) {
  check_length(where, "a replacement", content);
  Replacement made;
  made.where_ = where;
  made.content_ = std::move(content);
  made.regex_ = std::make_shared<const Regex>(Regex::from_pattern(where, pattern));
  return made;
}

bool Replacement::apply(std::string_view text, Regex::Scratch& scratch, std::string& out) const {
  const size_t most = out.size() + most_bytes(text.size());
  size_t done = 0;
  bool front_kept = true;
  const auto replace = [&](Match match) {
    if (match.begin == 0 && match.end > 0 && (content_.empty() || match.end > first_character(text, 0).size())) front_kept = false;
    out.append(text, done, match.begin - done).append(content_);
    done = match.end;
    if (out.size() > most) fail(ErrorCode::unsupported, where_, "makes a text more than 64 times as long");
  };
  if (literal_) {
    for (size_t at = text.find(*literal_); at != text.npos; at = text.find(*literal_, done)) replace({at, at + literal_->size()});
  } else {
    for_each_match(*regex_, text, scratch, replace);
  }
  out.append(text, done);
  return front_kept;
}

}  // namespace weft
