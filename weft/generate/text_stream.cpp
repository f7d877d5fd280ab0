#include "weft/generate/text_stream.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft {
namespace {

// What the bytes at the beginning of a view are: a whole character, the beginning of one that the view cuts off, or the
// longest part of a character that other bytes follow (Unicode 15, table 3-7).
struct Piece {
  size_t bytes;
  enum { whole, cut, wrong } kind;
};

Piece first_piece(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, Piece::whole};
  const size_t length = lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
  if (length == 0) return {1, Piece::wrong};
  // The second byte's range rules out long spellings, surrogates and what lies past U+10FFFF.
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < length; ++i, low = 0x80, high = 0xbf) {
    if (i == text.size()) return {i, Piece::cut};
    if (byte(i) < low || byte(i) > high) return {i, Piece::wrong};
  }
  return {length, Piece::whole};
}

}  // namespace

std::string take_utf8(std::string& bytes, bool more_follows) {
  std::string text;
  size_t at = 0;
  while (at < bytes.size()) {
    const Piece piece = first_piece(std::string_view(bytes).substr(at));
    if (piece.kind == Piece::cut && more_follows) break;
    if (piece.kind == Piece::whole)
      text.append(bytes, at, piece.bytes);
    else
      text += "\xef\xbf\xbd";
    at += piece.bytes;
  }
  bytes.erase(0, at);
  return text;
}

TextStream::TextStream(std::vector<std::string> stop_strings) : stops_(std::move(stop_strings)) {
  for (const std::string& stop : stops_) check(!stop.empty(), "generate", "a stop string is empty");
}

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return {};
  pending_ += bytes;
  for (; searched_ < pending_.size() && !stopped_; ++searched_) {
    const std::string_view upto = std::string_view(pending_).substr(0, searched_ + 1);
    size_t longest = 0;
    for (const std::string& stop : stops_)
      if (upto.ends_with(stop)) longest = std::max(longest, stop.size());
    if (longest == 0) continue;
    stopped_ = true;
    pending_.resize(upto.size() - longest);
    return take_utf8(pending_, false);
  }
  std::string certain = pending_.substr(0, pending_.size() - held_for_stop());
  const size_t offered = certain.size();
  std::string text = take_utf8(certain, true);
  pending_.erase(0, offered - certain.size());
  searched_ = pending_.size();
  return text;
}

std::string TextStream::finish() { return take_utf8(pending_, false); }

// The length of the longest end of pending_ that a stop string begins with.
size_t TextStream::held_for_stop() const {
  size_t held = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n)
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) held = n;
  return held;
}

}  // namespace weft
