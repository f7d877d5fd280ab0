// Contents of a chat format.
#pragma once

#include "weft/chat/chat_format.h"
#include "weft/chat/chat_template.h"

namespace weft {

struct ChatFormat::State {
  std::string folder;  // or the file, for messages
  std::vector<std::string> names;
  std::shared_ptr<const chat::ChatTemplate> plain,
      with_tools;  // for conversations without and with tools; plain may be null if there is no default
  std::map<std::string, std::string> special_tokens;
  std::optional<std::time_t> time;

  const chat::ChatTemplate& used_for(const Conversation& conversation) const;
  chat::Rendered render(const Conversation& conversation, bool add_generation_prompt) const;
  // Throws unsupported if the place of a generation block in the text is not known.
  void check_exact(const Conversation& conversation, const chat::Rendered& rendered) const;
};

}  // namespace weft
