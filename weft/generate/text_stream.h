// The bytes of tokens as they come, the text of them as it goes out. A token may end in the middle of a character, and a
// stop string may begin in one token and end in another, so text is held back until it is known to be neither.
//
// The first stop string to be complete ends the text right before its beginning (of several complete at the same byte,
// the longest): what is emitted does not depend on how the text is cut into tokens. Bytes that are no UTF-8 come out
// as U+FFFD, one for each longest part of a character, as Python's bytes.decode(errors="replace") has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stop_strings = {});

  // Takes the bytes of one token and returns the text that is now certain, in whole characters.
  std::string push(std::string_view bytes);
  // Returns what was held back: nothing more comes. After a stop it is empty.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  size_t held_for_stop() const;

  std::vector<std::string> stops_;
  std::string pending_;
  size_t searched_ = 0;  // bytes of pending_ that no stop string ends in
  bool stopped_ = false;
};

}  // namespace weft
