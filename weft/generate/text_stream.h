// The bytes of tokens as they come, the text of them as it goes out. A token may end in the middle of a character, and a
// stop string may begin in one token and end in another, so text is held back until it is known to be neither.
//
// The first stop string to be complete ends the text right before its beginning (of several complete at the same byte,
// the longest): what is emitted does not depend on how the text is cut into tokens. Bytes that are no UTF-8 come out
// as U+FFFD, one for each longest part of a character, as Python's bytes.decode(errors="replace") has it.
//
// The bytes of a hidden token (a special one) never go out, but a stop string may be made of them: "<|im_end|>".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stop_strings = {});

  // Takes the bytes of one token and returns the text that is now certain, in whole characters.
  std::string push(std::string_view bytes, bool hidden = false);
  // Returns what was held back: nothing more comes. After a stop it is empty.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  size_t held_for_stop() const;
  void release(size_t count);  // the first bytes of pending_

  std::vector<std::string> stops_;
  std::string pending_, hidden_;  // bytes that may yet be part of a stop string, and which of them are hidden (1)
  std::string shown_;             // bytes that go out as soon as they are whole characters
  size_t searched_ = 0;           // bytes of pending_ that no stop string ends in
  bool stopped_ = false;
};

}  // namespace weft
