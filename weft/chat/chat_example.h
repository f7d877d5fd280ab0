// One line of chat data: a conversation, and which of its answers a model is to learn.
//
//   {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}], "tools": [...]}
//   {"prompt": "...", "completion": "..."}                                            a question of the user and its answer
//   {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}]}   messages
#pragma once

#include <string>
#include <string_view>

#include "weft/chat/conversation.h"

namespace weft {

struct ChatExample {
  Conversation conversation;
  size_t first = 0;  // message of the completion; the answers before it are context
};

// Every other member is a variable of the template. "messages" takes precedence over "prompt". Throws bad_file with `where` and the message
// for an unknown role, a user's message or an answer without content, and an example without an answer.
ChatExample parse_chat_example(std::string_view json, const std::string& where);

}  // namespace weft
