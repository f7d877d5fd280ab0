// The results of the `tokenizers` library on 2100 texts in many scripts, for a tokenizer with each family's settings, and on fewer texts
// for settings that no family has. scripts/golden/tokenizers.py makes the files.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;

const std::string kFolder = WEFT_GOLDEN_TOKENIZERS "/";

json read(const std::string& name) {
  std::ifstream file(kFolder + name);
  EXPECT_TRUE(file) << name;
  return json::parse(file);
}

// Two letters an id.
std::vector<int32_t> ids_of(const std::string& letters) {
  static const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<int32_t> ids;
  for (size_t i = 0; i + 1 < letters.size(); i += 2) ids.push_back(int32_t(alphabet.find(letters[i]) * 64 + alphabet.find(letters[i + 1])));
  return ids;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  StreamingDecoder stream(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

struct Golden {
  std::string text;
  std::vector<int32_t> ids;                     // with the template's
  std::optional<std::string> decoded, skipped;  // of these ids; nullopt: not known
};

void expect_equal(const Tokenizer& tokenizer, const Golden& golden, const std::string& name) {
  const std::string where = name + ": " + json(golden.text).dump();
  EXPECT_EQ(tokenizer.encode(golden.text), golden.ids) << where;
  for (const bool skip : {false, true}) {
    const auto& expected = skip ? golden.skipped : golden.decoded;
    if (!expected) continue;
    EXPECT_EQ(tokenizer.decode(golden.ids, skip), *expected) << where;
    EXPECT_EQ(streamed(tokenizer, golden.ids, skip), *expected) << where;
  }
}

class TokenizerFamily : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerFamily, equals_tokenizers) {
  const std::string family = GetParam();
  const json texts = read("texts.json"), expected = read(family + "/expected.json");
  const Tokenizer tokenizer = Tokenizer::load(kFolder + family);
  const auto before = expected["before"].get<std::vector<int32_t>>();
  const std::string head = expected["head"], tail = expected["tail"];
  ASSERT_EQ(std::vector(tokenizer.before().begin(), tokenizer.before().end()), before);
  ASSERT_TRUE(tokenizer.after().empty());
  size_t compared = 0, tokens = 0;
  for (size_t i = 0; i < texts.size(); ++i, ++compared) {
    const std::string text = texts[i];
    std::vector<int32_t> ids = ids_of(expected["ids"].at(i));
    ASSERT_EQ(tokenizer.encode(text, /*add_special=*/false), ids) << family << ": " << texts[i].dump();
    tokens += ids.size();
    ids.insert(ids.begin(), before.begin(), before.end());
    const json &decoded = expected["decoded"].at(i), &skipped = expected["skipped"].at(i);
    expect_equal(tokenizer,
                 {text, ids, decoded.is_null() ? head + text + tail : decoded.get<std::string>(),
                  skipped.is_null() ? text : skipped.get<std::string>()},
                 family);
  }
  EXPECT_GE(compared, 2000u);
  EXPECT_GT(tokens, 30000u);
}

INSTANTIATE_TEST_SUITE_P(families, TokenizerFamily,
                         testing::Values("llama2", "mistral", "gemma", "phi3", "metaspace", "llama3", "qwen2.5", "gpt2"),
                         [](const auto& test) { return std::string(test.param) == "qwen2.5" ? "qwen2_5" : std::string(test.param); });

// The changes of one variant, applied to the base.
json patched(json document, const json& variant) {
  for (const auto& [path, value] : variant["patch"].items()) document[json::json_pointer(path)] = value;
  for (const auto& [token, id] : variant["tokens"].items()) document["model"]["vocab"][token] = id;
  for (const auto& token : variant["removed"]) document["model"]["vocab"].erase(token.get<std::string>());
  json merges = variant["merges"];
  for (const json& merge : document["model"]["merges"]) merges.push_back(merge);
  document["model"]["merges"] = merges;
  return document;
}

TEST(TokenizerGolden, variants_equal_tokenizers) {
  const json texts = read("texts.json"), base = read("mistral/tokenizer.json"), all = read("variants.json");
  size_t compared = 0, decoded = 0;
  for (const json& variant : all["variants"]) {
    const std::string name = variant["name"];
    const Tokenizer tokenizer = Tokenizer::parse(patched(base, variant).dump());
    for (size_t i = 0; i < all["texts"].size(); ++i, ++compared) {
      Golden golden{texts[all["texts"][i].get<size_t>()], ids_of(variant["ids"].at(i)), {}, {}};
      const json &whole = variant["decoded"].at(i), &skipped = variant["skipped"].at(i);
      if (!whole.is_null()) golden.decoded = whole.is_number() ? golden.text : whole.get<std::string>();
      if (!skipped.is_null()) golden.skipped = skipped.is_number() ? golden.decoded : skipped.get<std::string>();
      decoded += golden.decoded.has_value();
      expect_equal(tokenizer, golden, name);
    }
  }
  EXPECT_GE(all["variants"].size(), 57u);
  EXPECT_GE(compared, 6900u);
  EXPECT_GE(decoded, 6700u);
}

}  // namespace
}  // namespace weft
