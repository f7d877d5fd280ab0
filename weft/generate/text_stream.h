// Turns the bytes of tokens into text as they arrive. A token may end in the middle of a character, and a stop string may span several
// tokens, so text is held back until it is certain.
//
// The first stop string that is complete ends the text right before it (of several that end at the same byte, the longest), so the
// text does not depend on token boundaries. Invalid UTF-8 becomes U+FFFD, one per maximal invalid part, as in Python's
// bytes.decode(errors="replace").
//
// The bytes of a hidden (special) token are never emitted, but a stop string may contain them: "<|im_end|>".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stop_strings = {});

  // Adds the bytes of one token and returns the text that is now certain, in whole characters.
  std::string push(std::string_view bytes, bool hidden = false);
  // Ends the stream and returns the text that was held back; empty after a stop.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  size_t held_for_stop() const;
  void release(size_t count);  // the first bytes of pending_

  std::vector<std::string> stops_;
  std::string pending_, hidden_;  // bytes that may belong to a stop string, and which of them are hidden (1)
  std::string shown_;             // bytes to emit once they are whole characters
  size_t searched_ = 0;           // bytes of pending_ in which no stop string ends
  bool stopped_ = false;
};

}  // namespace weft
