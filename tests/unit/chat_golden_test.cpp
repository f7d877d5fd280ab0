// Templates rendered as jinja2 and transformers render them (scripts/make-golden templates).
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/observed.h"
#include "weft/base/error.h"
#include "weft/chat/chat_format.h"
#include "weft/chat/chat_template.h"
#include "weft/chat/conversation_state.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

ordered_json read(const std::string& name) { return ordered_json::parse(contents(WEFT_GOLDEN "/chat/" + name)); }

std::string template_text(const std::string& name) { return contents(WEFT_GOLDEN "/chat/templates/" + name + ".jinja"); }

class ChatGolden : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

// `row` has the text, or "raised": the message of raise_exception, or null for any other failure.
template <class Render>
void expect_result(const ordered_json& row, Render render) {
  std::string text, error;
  try {
    text = render();
  } catch (const Error& found) {
    error = found.what();
  }
  if (row.contains("text")) {
    EXPECT_EQ(error, "");
    EXPECT_EQ(text, row["text"].get<std::string>());
    return;
  }
  ASSERT_NE(error, "") << "no error, but the text " << text;
  const size_t refused = error.find("the template refuses this conversation (line ");
  EXPECT_EQ(refused != error.npos, !row["raised"].is_null()) << error;
  if (!row["raised"].is_null()) {
    EXPECT_TRUE(error.ends_with("): " + row["raised"].get<std::string>())) << error;
  }
}

TEST_F(ChatGolden, templates) {
  const ordered_json golden = read("renderings.json");
  std::map<std::string, ChatFormat> formats;
  std::map<std::string, Conversation> conversations;
  for (const auto& [name, conversation] : golden["conversations"].items())
    conversations.emplace(name, Conversation::parse(conversation.dump(), name));
  for (const ordered_json& row : golden["renderings"]) {
    const std::string name = row["template"], conversation = row["conversation"];
    SCOPED_TRACE(name + " " + conversation);
    if (!formats.contains(name)) {
      formats.emplace(name,
                      ChatFormat::parse(template_text(name), golden["special_tokens"].get<std::map<std::string, std::string>>(), name));
      formats.at(name).set_time(golden["time"].get<std::time_t>());
    }
    expect_result(row, [&] { return formats.at(name).render(conversations.at(conversation), row["prompt"]); });
  }
  EXPECT_GE(formats.size(), 11u);
  EXPECT_GE(conversations.size(), 20u);
}

TEST_F(ChatGolden, snippets) {
  const ordered_json golden = read("snippets.json");
  chat::Variables variables;
  const chat::Value values = chat::parse_value(golden["variables"].dump(), "variables");
  for (const auto& [name, value] : values.dict().entries) variables.emplace_back(name.text(), value);
  for (const ordered_json& row : golden["snippets"]) {
    const std::string text = row["template"];
    SCOPED_TRACE(text);
    expect_result(row, [&] { return chat::ChatTemplate(text, "snippet").render(variables, golden["time"].get<std::time_t>()).text; });
  }
  EXPECT_GE(golden["snippets"].size(), 400u);
}

// A conversation that is written and read again renders to the same text: the order of keys and the kinds of numbers are kept.
TEST_F(ChatGolden, conversations_survive_their_json) {
  const ordered_json golden = read("renderings.json");
  const ChatFormat format = ChatFormat::parse("{{ messages|tojson }}{{ tools|tojson }}{{ documents|tojson }}");
  for (const auto& [name, conversation] : golden["conversations"].items()) {
    const Conversation once = Conversation::parse(conversation.dump(), name), twice = Conversation::parse(once.json(), name);
    EXPECT_EQ(format.render(once, false), format.render(twice, false)) << name;
    EXPECT_EQ(once.json(), twice.json()) << name;
  }
}

TEST_F(ChatGolden, ids_and_masks) {
  const ordered_json golden = read("masks.json"), cases = read("renderings.json")["conversations"];
  const ChatFormat format = ChatFormat::parse(template_text("generation"));
  ASSERT_TRUE(format.has_generation_blocks());
  std::map<std::string, Tokenizer> tokenizers;
  int marked = 0;
  for (const ordered_json& row : golden["masks"]) {
    const std::string name = row["tokenizer"], conversation = row["conversation"];
    SCOPED_TRACE(name + " " + conversation);
    if (!tokenizers.contains(name)) tokenizers.emplace(name, Tokenizer::parse(contents(WEFT_GOLDEN "/chat/tokenizers/" + name + ".json")));
    const auto encoded = format.encode(Conversation::parse(cases[conversation].dump(), name), tokenizers.at(name), false);
    EXPECT_EQ(encoded.ids, row["ids"].get<std::vector<int32_t>>());
    std::string mask;
    for (const uint8_t bit : encoded.generated) mask += char('0' + bit);
    EXPECT_EQ(mask, row["mask"].get<std::string>());
    marked += mask.find('1') != mask.npos;
  }
  EXPECT_GE(marked, 20);
}

}  // namespace
}  // namespace weft
