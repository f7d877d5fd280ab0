// A window on a stream of text: what has been read and not yet taken. Not installed.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "weft/io/byte_stream.h"

namespace weft {

// The longest line or JSON value, and the longest text without a place to split it: each is held in memory whole, several times.
inline constexpr size_t kLongestText = size_t(64) << 20;

inline constexpr std::string_view kMark = "\xef\xbb\xbf";  // a byte order mark, which may begin a file

class TextWindow {
 public:
  explicit TextWindow(ByteStream& stream) : stream_(stream) {}

  std::string_view view() const { return {buffer_.data() + begin_, end_ - begin_}; }
  int64_t offset() const { return offset_; }  // of the view's first byte in the stream
  bool ended() const { return ended_; }       // the view is all that is left

  // Reads until the view has at least `bytes`, or the stream ends. Views of before are invalid afterwards.
  void fill(size_t bytes) {
    if (ended_ || view().size() >= bytes) return;
    const size_t wanted = std::max(bytes - view().size(), kRead);
    if (buffer_.size() - end_ < wanted) make_room(wanted);
    const size_t got = stream_.read({buffer_.data() + end_, wanted});
    end_ += got;
    ended_ = got < wanted;
  }
  void drop(size_t bytes) {
    begin_ += bytes;
    offset_ += int64_t(bytes);
  }
  // Drops bytes that need not be in the view; fewer if the stream ends.
  void skip(int64_t bytes) {
    while (bytes > 0) {
      fill(1);
      const size_t some = size_t(std::min<int64_t>(bytes, int64_t(view().size())));
      if (some == 0) return;
      drop(some);
      bytes -= int64_t(some);
    }
  }
  // Drops white space; false if nothing is left.
  bool skip_space() {
    for (;;) {
      fill(1);
      const size_t space = std::min(view().find_first_not_of(" \t\r\n"), view().size());
      const bool found = space < view().size();
      drop(space);
      if (found || (ended_ && view().empty())) return found;
    }
  }

 private:
  static constexpr size_t kRead = size_t(256) << 10;

  void make_room(size_t wanted) {
    const size_t kept = end_ - begin_;
    std::copy(buffer_.begin() + ptrdiff_t(begin_), buffer_.begin() + ptrdiff_t(end_), buffer_.begin());
    begin_ = 0;
    end_ = kept;
    if (buffer_.size() < kept + wanted) buffer_.resize(std::max(kept + wanted, 2 * buffer_.size()));
  }

  ByteStream& stream_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  int64_t offset_ = 0;
  bool ended_ = false;
};

}  // namespace weft
