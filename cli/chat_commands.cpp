#include "cli/chat_commands.h"

#include <filesystem>

#include "cli/chat_flags.h"
#include "weft/base/check.h"
#include "weft/base/spelling.h"
#include "weft/io/atomic_file.h"

namespace weft::cli {
namespace {

constexpr const char* kWhere = "chat";

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\n") + 1 - first);
}

// "a b c" is {"a", "b c"}.
std::pair<std::string, std::string> first_word(const std::string& text) {
  const size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  return {text.substr(0, end), trimmed(text.substr(end))};
}

std::string counted(size_t messages) { return join(messages, messages == 1 ? " message" : " messages"); }

}  // namespace

struct ChatCommands::Command {
  const char *name, *arguments, *help;
  Next (ChatCommands::*run)(const std::string&);
};

const ChatCommands::Command ChatCommands::kCommands[] = {
    {"reset", "", "Forget the conversation; the system message stays", &ChatCommands::reset},
    {"system", "TEXT", "Replace the system message; without a text, remove it", &ChatCommands::system},
    {"set", "NAME VALUE",
     "Change temperature, top-k, top-p, min-p, repetition-penalty, seed or max-tokens, or a variable of the template; "
     "without a name, show them",
     &ChatCommands::set},
    {"save", "FILE", "Write the conversation as JSON, which /load and weft generate --chat read", &ChatCommands::save},
    {"load", "FILE", "Continue the conversation in a file", &ChatCommands::load},
    {"regenerate", "", "Answer the last message again, with other random numbers", &ChatCommands::regenerate},
    {"help", "", "Show this", &ChatCommands::show_help},
    {"exit", "", "End the chat, as Ctrl-D does", &ChatCommands::exit},
};

std::string ChatCommands::help() {
  std::string text;
  for (const Command& command : kCommands) {
    const std::string head = join("/", command.name, *command.arguments ? " " : "", command.arguments);
    text += join("  ", head, std::string(head.size() < 18 ? 18 - head.size() : 1, ' '), command.help, "\n");
  }
  return text +
         "A line that ends in \\ continues on the next; a block between two lines of \"\"\" is one message; //text sends /text.\n"
         "Ctrl-C stops an answer, Ctrl-D ends the chat.";
}

ChatCommands::Next ChatCommands::run(const std::string& line) {
  const auto [name, rest] = first_word(line.substr(1));
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.push_back(command.name);
    if (name != command.name && !(name == "quit" && names.back() == "exit")) continue;
    check(*command.arguments || rest.empty(), kWhere, "/", command.name, " takes nothing after it, got '", rest, "'");
    return (this->*command.run)(rest);
  }
  const std::string near = nearest_word(name, names);
  fail(ErrorCode::invalid_argument, kWhere, "unknown command /", name, "; ",
       near.empty() ? "/help lists them, and //text sends a message that begins with /" : join("did you mean /", near, "?"));
}

ChatCommands::Next ChatCommands::reset(const std::string&) {
  Conversation conversation = session_.conversation();
  const std::string system = session_.system();
  conversation.erase(0, conversation.size());  // variables and tools stay
  session_.restart(std::move(conversation));
  session_.set_system(system);
  say_(system.empty() ? "a new conversation" : "a new conversation, with the same system message");
  return Next::read;
}

ChatCommands::Next ChatCommands::system(const std::string& rest) {
  session_.set_system(rest);
  say_(rest.empty() ? "no system message" : "the system message is replaced; it counts from the next answer on");
  return Next::read;
}

std::string ChatCommands::settings_text() const {
  const SamplingOptions s = sampling_.sampling(folder_);
  return join("temperature ", s.temperature, ", top-k ", s.top_k, ", top-p ", s.top_p, ", min-p ", s.min_p, ", repetition-penalty ",
              s.repetition_penalty, ", seed ", s.seed, sampling_.max_tokens ? join(", max-tokens ", *sampling_.max_tokens) : "",
              variables_);
}

ChatCommands::Next ChatCommands::set(const std::string& rest) {
  const auto [name, value] = first_word(rest);
  if (name.empty()) return say_(settings_text()), Next::read;
  check(!value.empty(), kWhere, "/set ", name, " has no value; expected /set NAME VALUE");
  std::string dashed = name;
  for (char& c : dashed)
    if (c == '_') c = '-';
  SamplingFlags changed = sampling_;
  if (changed.set(dashed, value)) {
    validate(changed.sampling(folder_));
    check(changed.max_tokens.value_or(1) >= 1, kWhere, "max-tokens is ", value, ", expected 1 or more");
    sampling_ = changed;
    return say_(settings_text()), Next::read;
  }
  const std::string near = nearest_word(dashed, SamplingFlags::names());
  check(near.empty(), kWhere, "there is no setting '", name, "'; did you mean ", near, "?");
  set_variable(session_.conversation(), name, value);
  variables_ += join(", ", name, " ", value);
  say_(join("the template's variable ", name, " is ", value));
  return Next::read;
}

ChatCommands::Next ChatCommands::save(const std::string& rest) {
  check(!rest.empty(), kWhere, "/save has no file; expected /save FILE");
  std::error_code ignored;
  if (std::filesystem::exists(rest, ignored)) {
    try {
      Conversation::load(rest);
    } catch (const Error&) {
      fail(ErrorCode::bad_file, rest, "is there already and is no conversation: it is not replaced");
    }
  }
  AtomicFile file(rest);
  file.write(session_.conversation().json() + "\n");
  file.commit();
  say_(join("saved ", counted(session_.conversation().size()), " to ", rest));
  return Next::read;
}

ChatCommands::Next ChatCommands::load(const std::string& rest) {
  check(!rest.empty(), kWhere, "/load has no file; expected /load FILE");
  Conversation conversation = Conversation::load(rest);
  const size_t messages = conversation.size();
  const bool open = messages > 0 && conversation.role(messages - 1) != "assistant";
  session_.restart(std::move(conversation));
  say_(join("loaded ", counted(messages), " from ", rest, open ? "; /regenerate answers the last one" : ""));
  return Next::read;
}

ChatCommands::Next ChatCommands::regenerate(const std::string&) {
  Conversation& conversation = session_.conversation();
  const auto last = [&] { return conversation.size() ? conversation.role(conversation.size() - 1) : std::string(); };
  check(last() != "" && last() != "system" && (last() != "assistant" || conversation.size() > 1), kWhere,
        "there is no message to answer again");
  if (last() == "assistant") conversation.pop_back();
  return Next::answer;
}

ChatCommands::Next ChatCommands::show_help(const std::string&) { return say_(help()), Next::read; }
ChatCommands::Next ChatCommands::exit(const std::string&) { return Next::end; }

}  // namespace weft::cli
