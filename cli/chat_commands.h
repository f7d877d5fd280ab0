// The commands of a chat: lines that begin with a slash.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/sampling_flags.h"
#include "weft/generate/chat_session.h"

namespace weft::cli {

class ChatCommands {
 public:
  enum class Next { read, answer, end };  // what the chat does after a command

  // All must outlive it. `say` prints a notice.
  ChatCommands(ChatSession& session, SamplingFlags& sampling, const ModelFolder& folder, std::function<void(const std::string&)> say)
      : session_(session), sampling_(sampling), folder_(folder), say_(std::move(say)) {}

  // Runs "/set temperature 0.7". Throws, in one sentence, for an unknown command (naming the nearest) and for a value that is wrong.
  Next run(const std::string& line);

  static std::string help();

 private:
  struct Command;
  static const Command kCommands[];

  Next reset(const std::string& rest);
  Next system(const std::string& rest);
  Next set(const std::string& rest);
  Next save(const std::string& rest);
  Next load(const std::string& rest);
  Next regenerate(const std::string& rest);
  Next show_help(const std::string& rest);
  Next exit(const std::string& rest);
  std::string settings_text() const;

  ChatSession& session_;
  SamplingFlags& sampling_;
  const ModelFolder& folder_;
  std::function<void(const std::string&)> say_;
  std::string variables_;  // set so far, as they were given
};

}  // namespace weft::cli
