// Conversations, and the templates and special tokens of model folders.
#include "weft/chat/chat_format.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/observed.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ChatFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weft_chat_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::optional<ChatFormat> load(const std::string& name = "") { return ChatFormat::load(folder_.string(), name); }
  std::string rendered(const std::string& name = "", const char* tools = nullptr) {
    Conversation chat;
    chat.add("user", "hi");
    if (tools) chat.set_json("tools", tools);
    return load(name)->render(chat, false);
  }

  fs::path folder_;
};

TEST_F(ChatFolder, without_a_template) {
  EXPECT_FALSE(load());
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_FALSE(load());
}

// As AutoTokenizer chooses: .jinja files, then tokenizer_config.json; chat_template.json only where nothing else is.
TEST_F(ChatFolder, precedence_of_files) {
  write("chat_template.json", R"({"chat_template": "from json"})");
  EXPECT_EQ(rendered(), "from json");
  write("tokenizer_config.json", R"({"chat_template": "from config"})");
  EXPECT_EQ(rendered(), "from config");
  write("chat_template.jinja", "from jinja\n");
  EXPECT_EQ(rendered(), "from jinja");
  write("additional_chat_templates/rag.jinja", "rag");
  EXPECT_EQ(load()->names(), (std::vector<std::string>{"default", "rag"}));
  EXPECT_EQ(rendered("rag"), "rag");
  EXPECT_EQ(rendered(), "from jinja");
}

TEST_F(ChatFolder, named_templates) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}, {"name": "broken", "template": "{{"}]})");
  EXPECT_EQ(load()->names(), (std::vector<std::string>{"broken", "default", "tool_use"}));
  EXPECT_EQ(rendered(), "plain");
  EXPECT_EQ(rendered("", "[]"), "tools");
  EXPECT_EQ(rendered("", "null"), "plain");
  EXPECT_EQ(rendered("default", "[]"), "plain");
  EXPECT_EQ(message_of([&] { load("nosuch"); }), folder_.string() + ": has no chat template 'nosuch', only broken, default, tool_use");
  EXPECT_EQ(message_of([&] { load("broken"); }),
            (folder_ / "tokenizer_config.json").string() + " chat_template 'broken': line 1: the template ends inside {{ }}");
}

TEST_F(ChatFolder, several_templates_without_a_default) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "a", "template": "A"}, {"name": "b", "template": "B"}]})");
  EXPECT_EQ(rendered("b"), "B");
  EXPECT_EQ(message_of([&] { rendered(); }), folder_.string() + ": has several chat templates and none is the default; choose one of a, b");
}

TEST_F(ChatFolder, wrong_members) {
  write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_EQ(message_of([&] { load(); }),
            (folder_ / "tokenizer_config.json").string() + ": $.chat_template is 5, expected a text or a list of named templates");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "a"}]})");
  EXPECT_EQ(message_of([&] { load(); }), (folder_ / "tokenizer_config.json").string() + ": $.chat_template[0] has no 'template'");
}

TEST_F(ChatFolder, special_tokens_are_variables) {
  write("tokenizer_config.json",
        R"({"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"}, "pad_token": null, "image_token": "<img>",
            "add_bos_token": true, "extra_special_tokens": {"boi_token": "<boi>"}, "chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token }}{{ image_token }}{{ boi_token }}"})");
  write("special_tokens_map.json", R"({"unk_token": {"content": "<unk>"}})");
  EXPECT_EQ(rendered(), "<s></s><unk><img><boi>");
  EXPECT_EQ(load()->special_tokens().size(), 5u);
}

TEST(ChatFormat, variables_of_the_conversation) {
  const ChatFormat format = ChatFormat::parse(
      "{{ bos_token }}{{ messages|length }}{{ tools }}{{ documents }}{{ enable_thinking }}{{ n }}{{ x }}{{ s }}{{ add_generation_prompt }}",
      {{"bos_token", "<s>"}});
  Conversation chat;
  chat.add("user", "hi");
  EXPECT_EQ(format.render(chat, true), "<s>1NoneNoneTrue");
  chat.set("enable_thinking", false);
  chat.set("n", 3);
  chat.set("x", 2.0);
  chat.set("s", "text");
  chat.set("bos_token", "<b>");
  EXPECT_EQ(format.render(chat, false), "<b>1NoneNoneFalse32.0textFalse");
  chat.unset("n");
  EXPECT_FALSE(chat.has("n"));
  EXPECT_TRUE(chat.has("x"));
  chat.set_json("tools", R"([{"name": "f"}])");
  EXPECT_EQ(format.render(chat, false), "<b>1[{'name': 'f'}]NoneFalse2.0textFalse");
}

// transformers fills `thinking` and `reasoning_content` from whichever of their names a message has.
TEST(ChatFormat, reasoning_has_every_name) {
  const ChatFormat format = ChatFormat::parse("{{ messages[0]|tojson }}");
  Conversation chat;
  chat.add_json(R"({"role": "assistant", "reasoning": "why", "content": "so"})");
  EXPECT_EQ(format.render(chat, false),
            R"({"thinking": "why", "role": "assistant", "reasoning": "why", "content": "so", "reasoning_content": "why"})");
}

TEST(ChatFormat, an_empty_conversation_is_refused) {
  const ChatFormat format = ChatFormat::parse("x", {}, "t");
  EXPECT_EQ(message_of([&] { format.render(Conversation(), true); }), "t: the conversation has no messages");
}

TEST(ChatFormat, time_can_be_set) {
  ChatFormat format = ChatFormat::parse("{{ strftime_now('%Y') }}");
  Conversation chat;
  chat.add("user", "hi");
  format.set_time(86400 * 365 * 10);
  EXPECT_EQ(format.render(chat, false), "1979");
  format.set_time(std::nullopt);
  EXPECT_GE(format.render(chat, false), "2024");
}

TEST(ChatFormat, masks_only_where_the_template_marks) {
  const Tokenizer tokenizer = Tokenizer::load(WEFT_GOLDEN "/models/gpt2");
  Conversation chat;
  chat.add("user", "hello there");
  chat.add("assistant", "hi");
  const ChatFormat plain = ChatFormat::parse("{{ messages[0].content }}");
  EXPECT_FALSE(plain.has_generation_blocks());
  EXPECT_TRUE(plain.encode(chat, tokenizer, false).generated.empty());
  EXPECT_EQ(plain.encode(chat, tokenizer, false).ids, tokenizer.encode("hello there", false));
  const ChatFormat marked = ChatFormat::parse(
      "A:{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %};");
  const auto encoded = marked.encode(chat, tokenizer, false);
  EXPECT_EQ(encoded.text, "A:hi;");
  ASSERT_EQ(encoded.generated.size(), encoded.ids.size());
  EXPECT_EQ(encoded.generated.front(), 0);
  EXPECT_EQ(encoded.generated.back(), 0);
  EXPECT_GT(std::count(encoded.generated.begin(), encoded.generated.end(), 1), 0);
  const ChatFormat nested =
      ChatFormat::parse("A{% generation %}b{% generation %}c{% endgeneration %}d{% endgeneration %}E{% generation %}{% endgeneration %}");
  const auto all = nested.encode(chat, tokenizer, false);
  EXPECT_EQ(all.text, "AbcdE");
  EXPECT_EQ(all.generated.front(), 0);
  EXPECT_EQ(all.generated.back(), 0);
  EXPECT_EQ(std::count(all.generated.begin(), all.generated.end(), 1), ptrdiff_t(all.ids.size()) - 2);
  const ChatFormat inside = ChatFormat::parse("{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}", {}, "t");
  EXPECT_EQ(inside.render(chat, false), "x");
  EXPECT_EQ(message_of([&] { inside.encode(chat, tokenizer, false); }),
            "t: a generation block inside a macro, a call or a set block: the place of its text in the whole is not known");
}

TEST(Conversation, messages) {
  Conversation chat = Conversation::parse(
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}, {"content": null}])");
  EXPECT_EQ(chat.size(), 3u);
  EXPECT_EQ(chat.role(0), "system");
  EXPECT_EQ(chat.content(1), "ab");
  EXPECT_EQ(chat.role(2), "");
  EXPECT_EQ(chat.content(2), "");
  chat.pop_back();
  chat.add("assistant", "c");
  chat.insert(1, "user", "first");
  EXPECT_EQ(chat.role(3), "assistant");
  EXPECT_EQ(chat.content(1), "first");
  const Conversation copy = chat;
  chat.erase(1, 3);
  EXPECT_EQ(chat.size(), 1u);
  EXPECT_EQ(copy.size(), 4u);
  EXPECT_EQ(message_of([&] { chat.content(1); }), "Conversation: has 1 messages, no message 1");
  EXPECT_EQ(message_of([&] { chat.erase(1, 1); }), "Conversation: has 1 messages, cannot erase 1 from message 1");
  chat.pop_back();
  EXPECT_EQ(message_of([&] { chat.pop_back(); }), "Conversation: has no message to remove");
}

TEST(Conversation, files_that_are_not_conversations) {
  const auto error = [](const std::string& text) { return message_of([&] { Conversation::parse(text, "c.json"); }); };
  EXPECT_EQ(error("5"), "c.json: is a number, expected a list of messages or an object with \"messages\"");
  EXPECT_EQ(error("{}"), "c.json: has no \"messages\"");
  EXPECT_EQ(error(R"({"messages": {}})"), "c.json: \"messages\" is an object, expected a list of messages");
  EXPECT_EQ(error(R"(["hi"])"), "c.json: message 0 is a string, expected an object such as {\"role\": \"user\", \"content\": \"...\"}");
  EXPECT_EQ(error(R"({"messages": [], "tools": {"name": "f"}})"), "c.json: \"tools\" must be a list of objects");
  EXPECT_EQ(error(R"([{"role": "a", "role": "b"}])"), "c.json: names the key 'role' twice in one object");
  EXPECT_EQ(error(R"([{"n": 18446744073709551615}])"),
            "c.json: has the integer 18446744073709551615, which does not fit 64 bits with a sign");
  EXPECT_EQ(error(R"([{"n": 99999999999999999999}])"), "c.json: has the integer 99999999999999999999, which does not fit 64 bits");
  EXPECT_EQ(error(std::string(100, '[')), "c.json: nests JSON more than 64 levels deep");
  EXPECT_EQ(error("[").substr(0, 28), "c.json: is not valid JSON at");
}

}  // namespace
}  // namespace weft
