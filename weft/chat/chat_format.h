// The chat templates of a model folder: a conversation to the text, the ids and the mask that transformers' apply_chat_template gives.
// Templates are Jinja (docs/chat_templates.md lists what is supported) and untrusted: steps, memory, output and depth are limited.
//
//   const auto format = ChatFormat::load("model_folder");
//   const ChatFormat::Encoded prompt = format->encode(conversation, tokenizer, /*add_generation_prompt=*/true);
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/chat/conversation.h"

namespace weft {

class Tokenizer;

class ChatFormat {
 public:
  // Reads the templates of a folder: chat_template.jinja and additional_chat_templates/*.jinja; without them, chat_template of
  // tokenizer_config.json (one text, or a list of {name, template}); without it, chat_template.json. nullopt: the folder has none.
  // `name` chooses one of several templates; an unknown name is an error that lists the names. Without a name, a conversation with tools
  // uses "tool_use" if there is one, else "default". Throws bad_file or unsupported with the template, the line and the construct.
  static std::optional<ChatFormat> load(const std::string& folder, const std::string& name = "");

  // Templates as texts by name; `name` selects one as above. `where`: their file, for errors.
  static std::optional<ChatFormat> of(const std::map<std::string, std::string>& templates,
                                      const std::map<std::string, std::string>& special_tokens, const std::string& where,
                                      const std::string& name = "");

  // One template given as text. `special_tokens`: bos_token, eos_token ... as variables of the template.
  static ChatFormat parse(std::string_view text, const std::map<std::string, std::string>& special_tokens = {},
                          const std::string& file = "chat template");

  // The special tokens that the files of a folder give to its templates.
  static std::map<std::string, std::string> read_special_tokens(const std::string& folder);

  ChatFormat(const ChatFormat&);
  ChatFormat(ChatFormat&&) noexcept;
  ChatFormat& operator=(const ChatFormat&);
  ChatFormat& operator=(ChatFormat&&) noexcept;
  ~ChatFormat();

  std::vector<std::string> names() const;  // of all templates, sorted
  // The special tokens that the template sees, by variable: {"bos_token", "<s>"}, ...
  const std::map<std::string, std::string>& special_tokens() const;

  // Throws invalid_argument with the sentence of raise_exception() when the template refuses the conversation, and for any other error of a
  // template while it runs; the message names template and line.
  std::string render(const Conversation& conversation, bool add_generation_prompt) const;

  struct Encoded {
    std::string text;
    std::vector<int32_t> ids;        // tokenizer.encode(text, add_special = false)
    std::vector<uint8_t> generated;  // 1: the token lies in a generation block. Empty if the template has no such block
  };
  Encoded encode(const Conversation& conversation, const Tokenizer& tokenizer, bool add_generation_prompt) const;

  // The conversation with the answers to train on marked: what the assistant says in message `first` and later ones, with its end of turn.
  // They are the generation blocks. Without such blocks, an answer is what the template adds between the messages before it (with the
  // generation prompt) and the messages up to it, less white space after a special token that ends it. Throws, naming the message, if
  // that is not known: the template renders earlier messages otherwise once later ones follow.
  Encoded encode_answers(const Conversation& conversation, const Tokenizer& tokenizer, size_t first = 0) const;

  // The text that the template writes after an assistant's message, up to white space, and its id if that is one special token. Both are
  // empty if the template writes none or refuses a question and an answer.
  struct EndOfTurn {
    std::string text;
    std::optional<int32_t> id;
  };
  EndOfTurn end_of_turn(const Tokenizer& tokenizer) const;

  // Whether the template that this conversation uses marks what the assistant says with {% generation %}.
  bool has_generation_blocks(const Conversation& conversation = {}) const;

  // The time that strftime_now() prints, in the local time zone; not set: the time of the call.
  void set_time(std::optional<std::time_t> time);

  struct State;  // weft/chat/chat_format_state.h

 private:
  explicit ChatFormat(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
