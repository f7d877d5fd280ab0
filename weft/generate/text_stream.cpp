#include "weft/generate/text_stream.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {

TextStream::TextStream(std::vector<std::string> stop_strings) : stops_(std::move(stop_strings)) {
  for (const std::string& stop : stops_) check(!stop.empty(), "generate", "a stop string is empty");
}

std::string TextStream::push(std::string_view bytes, bool hidden) {
  if (stopped_) return {};
  pending_ += bytes;
  hidden_.append(bytes.size(), char(hidden));
  for (; searched_ < pending_.size(); ++searched_) {
    const std::string_view upto = std::string_view(pending_).substr(0, searched_ + 1);
    size_t longest = 0;
    for (const std::string& stop : stops_)
      if (upto.ends_with(stop)) longest = std::max(longest, stop.size());
    if (longest == 0) continue;
    stopped_ = true;
    pending_.resize(upto.size() - longest);
    return finish();
  }
  release(pending_.size() - held_for_stop());
  searched_ = pending_.size();
  std::string text;
  drain_utf8(shown_, text, true);
  return text;
}

std::string TextStream::finish() {
  release(pending_.size());
  std::string text;
  drain_utf8(shown_, text, false);
  return text;
}

void TextStream::release(size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!hidden_[i]) shown_.push_back(pending_[i]);
  pending_.erase(0, count);
  hidden_.erase(0, count);
}

// The length of the longest suffix of pending_ that is a prefix of a stop string.
size_t TextStream::held_for_stop() const {
  size_t held = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n)
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) held = n;
  return held;
}

}  // namespace weft
