// The flags of commands that apply a chat template, and the conversations they read.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "weft/chat/chat_format.h"
#include "weft/models/tokenizer_folder.h"

namespace weft::cli {

struct ChatFlags {
  std::string template_name, template_file;
  std::vector<std::string> variables;  // NAME=VALUE

  void add_to(CLI::App& command);
  bool given() const { return !template_name.empty() || !template_file.empty() || !variables.empty(); }

  // The template of the tokenizer's folder, or of --template-file. Throws, naming what to do, if there is none.
  ChatFormat format(const TokenizerFolder& folder) const;
  void set_variables(Conversation& conversation) const;
};

// Sets a variable of the template from the text of its value: JSON (false, 3, "text", [1, 2]), else the text itself.
void set_variable(Conversation& conversation, const std::string& name, const std::string& value);

// The conversations of a file: a .jsonl file has one per line, another file one; "-" is standard input, with either.
std::vector<Conversation> read_conversations(const std::string& path);

}  // namespace weft::cli
