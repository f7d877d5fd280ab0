// Messages typed or piped in: lines, continued lines and blocks.
//
//   a line ending in \      continues on the next one
//   """                     begins a block that ends with another """ line; the text may begin right after the first and end right before
//                           the last three quotes
#pragma once

#include <optional>
#include <string>

#include "cli/line_editor.h"

namespace weft::cli {

class ChatInput {
 public:
  explicit ChatInput(LineEditor& editor) : editor_(editor) {}

  struct Message {
    std::string text;
    bool block = false;  // never a command
  };
  // The next message; nullopt at the end. Ctrl-C drops the message being typed. Throws if the input ends inside a message that
  // continues.
  std::optional<Message> next();

 private:
  std::optional<std::string> rest_of_block(std::string text);
  std::optional<std::string> continued(std::string text);

  LineEditor& editor_;
};

}  // namespace weft::cli
