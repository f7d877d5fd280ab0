// Answers of conversations: ids and masks beside transformers', and the lines of chat data that are refused.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/observed.h"
#include "weft/chat/chat_example.h"
#include "weft/chat/chat_format.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

ordered_json read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return ordered_json::parse(file);
}

Tokenizer tokenizer_with(const std::string& name, const ordered_json& added) {
  ordered_json content = read(WEFT_GOLDEN "/chat/tokenizers/" + name + ".json");
  int64_t next = 0;
  for (const auto& [token, id] : content["model"]["vocab"].items()) next = std::max(next, id.get<int64_t>() + 1);
  for (const ordered_json& token : content["added_tokens"]) next = std::max(next, token["id"].get<int64_t>() + 1);
  for (const ordered_json& token : added)
    content["added_tokens"].push_back({{"id", next++},
                                       {"content", token["token"]},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", token["rstrip"]},
                                       {"normalized", false},
                                       {"special", true}});
  return Tokenizer::parse(content.dump(), name);
}

std::string text_of(const std::vector<uint8_t>& mask) {
  std::string text;
  for (const uint8_t bit : mask) text += char('0' + bit);
  return text;
}

TEST(ChatAnswers, ids_and_masks) {
  const ordered_json golden = read(WEFT_GOLDEN "/chat/answers.json");
  std::map<std::string, Tokenizer> tokenizers;
  int marked = 0, refused = 0;
  for (const ordered_json& row : golden["answers"]) {
    const std::string name = row["tokenizer"], added = row["added"], shape = row["template"], conversation = row["conversation"];
    SCOPED_TRACE(name + " " + added + " " + shape + " " + conversation);
    if (!tokenizers.contains(name + added)) tokenizers.emplace(name + added, tokenizer_with(name, golden["added"][added]));
    const ChatFormat format = ChatFormat::parse(golden["templates"][shape].get<std::string>(), {}, shape);
    const ChatExample example = parse_chat_example(golden["conversations"][conversation].dump(), conversation);
    const auto encode = [&] { return format.encode_answers(example.conversation, tokenizers.at(name + added), example.first); };
    if (row.contains("refused")) {
      const std::string error = message_of(encode);
      EXPECT_NE(error.find("the answer in message " + std::to_string(row["refused"].get<int>()) + " cannot be found"), error.npos) << error;
      ++refused;
      continue;
    }
    const ChatFormat::Encoded encoded = encode();
    EXPECT_EQ(encoded.ids, row["ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(text_of(encoded.generated), row["mask"].get<std::string>());
    marked += text_of(encoded.generated).find('1') != std::string::npos;
  }
  EXPECT_GE(marked, 200);
  EXPECT_GE(refused, 6);
}

// The answers of the prompt are context.
TEST(ChatAnswers, completion_alone_counts) {
  const ordered_json golden = read(WEFT_GOLDEN "/chat/answers.json");
  const Tokenizer tokenizer = tokenizer_with("gpt2", golden["added"]["chatml"]);
  const char* json =
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
                         "completion": "the answer"})";
  for (const char* shape : {"chatml_tools", "plain_chatml"}) {
    const ChatFormat format = ChatFormat::parse(golden["templates"][shape].get<std::string>(), {}, shape);
    const ChatExample example = parse_chat_example(json, "line");
    ASSERT_EQ(example.first, 3u);
    const auto encoded = format.encode_answers(example.conversation, tokenizer, example.first);
    std::vector<int32_t> counted;
    for (size_t i = 0; i < encoded.ids.size(); ++i)
      if (encoded.generated[i]) counted.push_back(encoded.ids[i]);
    EXPECT_EQ(tokenizer.decode(counted), "the answer<|im_end|>") << shape;
  }
}

TEST(ChatAnswers, end_of_turn) {
  const ordered_json golden = read(WEFT_GOLDEN "/chat/answers.json");
  const ChatFormat format = ChatFormat::parse(golden["templates"]["chatml_tools"].get<std::string>());
  const Tokenizer with = tokenizer_with("gpt2", golden["added"]["chatml"]), without = tokenizer_with("gpt2", golden["added"][""]);
  EXPECT_EQ(format.end_of_turn(with).text, "<|im_end|>");
  EXPECT_EQ(format.end_of_turn(with).id, with.id_of("<|im_end|>"));
  EXPECT_EQ(format.end_of_turn(without).text, "<|im_end|>");
  EXPECT_FALSE(format.end_of_turn(without).id);
  EXPECT_EQ(ChatFormat::parse("{{ messages[1].content }}\n").end_of_turn(with).text, "");
  EXPECT_EQ(ChatFormat::parse("{{ raise_exception('no') }}").end_of_turn(with).text, "");
}

TEST(ChatAnswers, prompts_and_completions_are_messages) {
  const ChatFormat format = ChatFormat::parse("{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{{ style }}");
  const auto rendered = [&](const char* json) { return format.render(parse_chat_example(json, "line").conversation, false); };
  EXPECT_EQ(rendered(R"({"prompt": "a", "completion": "b"})"), "u:a;a:b;");
  EXPECT_EQ(rendered(R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}], "completion": "b"})"),
            "s:s;u:a;a:b;");
  EXPECT_EQ(rendered(R"({"prompt": "a", "completion": [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]})"),
            "u:a;a:b;u:c;");
  EXPECT_EQ(
      rendered(R"({"prompt": "x", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "style": "!"})"),
      "u:a;a:b;!");
}

TEST(ChatAnswers, refused_lines) {
  const auto refused = [](const std::string& json) { return message_of([&] { parse_chat_example(json, "chat.jsonl:7"); }); };
  const auto messages = [](const std::string& list) { return R"({"messages": [{"role": "user", "content": "a"}, )" + list + "]}"; };
  const std::pair<std::string, std::string> cases[] = {
      {"[1]", "chat.jsonl:7: is not an object"},
      {R"({"text": "a"})", "has neither \"messages\" nor \"prompt\" and \"completion\""},
      {R"({"prompt": "a"})", "has neither \"messages\" nor \"prompt\" and \"completion\""},
      {R"({"messages": "a"})", "its \"messages\" is not a list"},
      {R"({"messages": []})", "has no message of the assistant"},
      {messages("5"), "message 1 is not an object"},
      {messages(R"({"content": "b"})"), "message 1 has no \"role\""},
      {messages(R"({"role": "critic", "content": "b"})"),
       "message 1 has the role 'critic', expected system, developer, user, assistant or tool"},
      {messages(R"({"role": "assistant", "content": 5})"), "message 1 has a \"content\" that is neither a text nor a list of parts"},
      {messages(R"({"role": "assistant", "content": " \n"})"), "message 1 is an empty answer"},
      {messages(R"({"role": "assistant", "content": null, "tool_calls": []})"), "message 1 is an empty answer"},
      {messages(R"({"role": "assistant", "content": [{"type": "text", "text": ""}]})"), "message 1 is an empty answer"},
      {messages(R"({"role": "user", "text": "b"})"), "message 1 of the user has no \"content\""},
      {messages(R"({"role": "user", "content": null})"), "message 1 of the user has no \"content\""},
      {messages(R"({"role": "user", "content": "b"})"), "has no message of the assistant: there is nothing to learn"},
      {R"({"prompt": "a", "completion": ""})", "its \"completion\" is empty"},
      {R"({"prompt": "a", "completion": []})", "its \"completion\" is empty"},
      {R"({"prompt": "", "completion": "b"})", "its \"prompt\" is empty"},
      {R"({"prompt": 5, "completion": "b"})", "its \"prompt\" is neither a text nor a list of messages"},
      {R"({"prompt": [{"role": "assistant", "content": "b"}], "completion": [{"role": "user", "content": "c"}]})",
       "has no message of the assistant in its \"completion\""},
      {R"({"prompt": "a", "completion": "b", "tools": "x"})", "\"tools\" must be a list of objects"},
  };
  for (const auto& [json, expected] : cases) {
    const std::string error = refused(json);
    EXPECT_NE(error.find(expected), error.npos) << json << "\n" << error;
    EXPECT_NE(error.find("chat.jsonl:7"), error.npos) << error;
  }
}

}  // namespace
}  // namespace weft
