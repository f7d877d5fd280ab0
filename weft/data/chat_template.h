// The chat templates that `weft train --chat-template` gives a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct ChatTemplate {
  std::string_view name;
  std::string_view text;            // Jinja; what the assistant says is a generation block
  std::vector<std::string> tokens;  // special tokens it writes
  std::string_view end_of_turn;     // one of them: ends an answer
};

// Throws, with the names there are, for an unknown one.
const ChatTemplate& chat_template(std::string_view name);

}  // namespace weft
