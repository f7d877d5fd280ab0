// One chat template: parsed once, rendered any number of times, by any number of threads.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "weft/chat/machine.h"

namespace weft::chat {

class ChatTemplate {
 public:
  // Throws bad_file or unsupported with `file`, the line and the construct.
  ChatTemplate(std::string_view source, std::string file, const TemplateLimits& limits = {});

  // Throws with the file and the line: invalid_argument if the template refuses the conversation (raise_exception) or does something wrong
  // with its values; unsupported for a function, filter, test or method that is not here; bad_file if it exceeds a limit.
  Rendered render(const Variables& variables, std::time_t now) const;

  const std::string& file() const { return file_; }
  bool generation_blocks() const { return tree_.generation_blocks; }

 private:
  std::string file_;
  TemplateLimits limits_;
  SyntaxTree tree_;
};

}  // namespace weft::chat
