// A conversation as chat templates see it: messages in order, tools, documents and further variables. The order of keys is kept: a
// template that prints a message or a tool as JSON prints it as it was written.
//
//   Conversation chat;
//   chat.add("user", "What is the capital of France?");
//   chat.set("enable_thinking", false);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

class Conversation {
 public:
  Conversation();
  Conversation(const Conversation& other);
  Conversation(Conversation&&) noexcept;
  Conversation& operator=(const Conversation& other);
  Conversation& operator=(Conversation&&) noexcept;
  ~Conversation();

  // Reads a list of messages, or an object: "messages" is that list, "tools" and "documents" are lists of objects, and every other member
  // is a variable of that name. A message is an object; its other members (tool_calls, reasoning_content ...) are kept as they are. Throws
  // bad_file with the file, the path in it and what was expected.
  static Conversation parse(std::string_view json, const std::string& file = "conversation");
  static Conversation load(const std::string& path);
  std::string json() const;  // what parse() reads

  size_t size() const;                      // number of messages
  std::string role(size_t index) const;     // "" if the message has none
  std::string content(size_t index) const;  // the text; the texts of a list of parts in a row; "" if the message has none
  void add(std::string_view role, std::string_view content);
  void add_json(std::string_view message);  // one message as a JSON object
  void insert(size_t index, std::string_view role, std::string_view content);
  void erase(size_t first, size_t count = 1);
  void pop_back();

  // Variables of the template, such as enable_thinking or tools. Setting one again replaces it.
  void set(std::string_view variable, bool value);
  void set(std::string_view variable, int64_t value);
  void set(std::string_view variable, double value);
  void set(std::string_view variable, std::string_view value);
  void set(std::string_view variable, const char* value) { set(variable, std::string_view(value)); }
  void set(std::string_view variable, int value) { set(variable, int64_t(value)); }
  void set_json(std::string_view variable, std::string_view json);
  bool has(std::string_view variable) const;
  void unset(std::string_view variable);

  struct State;  // weft/chat/conversation_state.h
  explicit Conversation(State state);
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace weft
