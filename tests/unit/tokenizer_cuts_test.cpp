// Cutting a text does not change its ids: random texts of awkward characters, every cut, every pattern and setting that allows cuts.
#include "weft/io/tokenizer/cuts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "weft/io/tokenizer/byte_alphabet.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr const char* kContractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const std::string kLlama =
    std::string(kContractions) + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kQwen =
    std::string(kContractions) + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kGpt4o = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" + std::string(kContractions) +
                           R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" + kContractions +
                           R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

json byte_level(bool use_regex, bool prefix_space = false) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}
json split(const std::string& pattern, const char* behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behavior}, {"invert", invert}};
}
json sequence(std::vector<json> steps) { return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}; }

json added_token(int id, const std::string& content, bool normalized, const char* strip = nullptr) {
  json token = {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", normalized}, {"special", false}};
  if (strip) token[strip] = true;
  return token;
}

// Any two bytes of a word become one token, so ids show where words start and end.
json tokenizer_json(const json& pre_tokenizer, const json& normalizer = nullptr, const json& added = json::array()) {
  json vocab = json::object(), merges = json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[std::string(letter_of_byte(uint8_t(byte)))] = vocab.size();
  for (const uint8_t left : std::string(" \n\r\tab1.,'/s<>\xc3\xcc\xe6\xe2\xe3\x80\x81\xa9"))
    for (const uint8_t right : std::string(" \n\r\tab1.,'/s<>\xa9\x81\x88\x80")) {
      const std::string a(letter_of_byte(left)), b(letter_of_byte(right));
      vocab[a + b] = vocab.size();
      merges.push_back({a, b});
    }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", normalizer},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"decoder", byte_level(true)},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

// Letters, digits, marks that compose, contractions, all sorts of white space, tokens.
std::string random_text(std::mt19937& random) {
  static const std::string parts[] = {
      " ", " ",       "\n",     "\n", "  ",           "\n\n", "\r\n", "\t",     "a",      "B",      "abs",
      "é", "e\u0301", "\u0301", "中", "文",           "。",   "1",    "23",     "4567",   "½",      ".",
      ",", "...",     "'",      "'s", "'LL",          "/",    "//",   "\u00a0", "\u2028", "\u3000", "\u0085",
      "ﬁ", "क\u093c", "\u0958", "가", "\u1100\u1161", "😀",   "<t>",  "<",      "t>",     "<u>",    "\U0001e030"};
  std::string text;
  for (size_t n = random() % 24; n > 0; --n) text += parts[random() % std::size(parts)];
  return text;
}

struct Case {
  const char* name;
  json definition;
};

std::vector<Case> cuttable_cases() {
  const json tokens = {added_token(900, "<t>", false), added_token(901, "<u>", true), added_token(902, "   ", true),
                       added_token(903, "\n\n\n", false)};
  const json stripping = {added_token(900, "<t>", false, "rstrip"), added_token(901, "<u>", false, "lstrip"),
                          added_token(902, "4567", false, "single_word"), added_token(903, "abs", false, "lstrip")};
  const json nfc = {{"type", "NFC"}}, nfd = {{"type", "NFD"}};
  return {
      {"gpt2", tokenizer_json(byte_level(true))},
      {"gpt2, tokens", tokenizer_json(byte_level(true), nullptr, tokens)},
      {"gpt2, digits", tokenizer_json(sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}), nullptr, tokens)},
      {"gpt2, numbers", tokenizer_json(sequence({{{"type", "Digits"}, {"individual_digits", false}}, byte_level(true)}))},
      {"llama", tokenizer_json(sequence({split(kLlama), byte_level(false)}))},
      {"llama, tokens", tokenizer_json(sequence({split(kLlama), byte_level(false)}), nfd, tokens)},
      {"llama, inverted", tokenizer_json(sequence({split(kLlama, "Removed", true), byte_level(false)}), nullptr, tokens)},
      {"qwen", tokenizer_json(sequence({split(kQwen), byte_level(false)}), nfc, tokens)},
      {"llama, stripping", tokenizer_json(sequence({split(kLlama), byte_level(false)}), nullptr, stripping)},
      {"gpt2, stripping", tokenizer_json(byte_level(true), nfc, stripping)},
      {"gpt4o", tokenizer_json(sequence({split(kGpt4o), byte_level(false)}))},
      {"gpt4o, tokens", tokenizer_json(sequence({split(kGpt4o), byte_level(false)}), nfc, tokens)}};
}

// Every place that cut() returns for a text, and the text in pieces of at most eight bytes where it can be cut so. Returns the number of
// places.
int expect_same_ids(const Tokenizer& tokenizer, const std::string& text, const std::string& name) {
  const std::vector<int32_t> whole = tokenizer.encode(text, false);
  int cuts = 0;
  for (size_t at = text.size(); (at = tokenizer.cut(text, at - (at > 0)));) {  // from the last
    ++cuts;
    std::vector<int32_t> ids = tokenizer.encode(text.substr(0, at), false);
    const std::vector<int32_t> rest = tokenizer.encode_rest(text.substr(at));
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(ids, whole) << name << ": " << json(text).dump() << " at byte " << at;
  }
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size();) {
    const size_t cut = tokenizer.cut(std::string_view(text).substr(at), 8);
    const std::string piece = text.substr(at, cut ? cut : text.npos);
    const std::vector<int32_t> more = at == 0 ? tokenizer.encode(piece, false) : tokenizer.encode_rest(piece);
    ids.insert(ids.end(), more.begin(), more.end());
    at += piece.size();
  }
  EXPECT_EQ(ids, whole) << name << ", in pieces: " << json(text).dump();
  return cuts;
}

TEST(tokenizer_cuts, do_not_change_the_ids) {
  for (const Case& c : cuttable_cases()) {
    const Tokenizer tokenizer = Tokenizer::parse(c.definition.dump());
    ASSERT_EQ(tokenizer.cut("one two", 7), 3u) << c.name;
    std::mt19937 random(7);
    int cuts = 0;
    for (int round = 0; round < 3000 && !testing::Test::HasFailure(); ++round)
      cuts += expect_same_ids(tokenizer, random_text(random), c.name);
    EXPECT_GT(cuts, 1000) << c.name;
  }
}

// Shows that the test above can fail: these places look similar and are not cuts.
TEST(tokenizer_cuts, other_places_change_the_ids) {
  const auto changes = [](const json& definition, const std::string& first, const std::string& second) {
    const Tokenizer tokenizer = Tokenizer::parse(definition.dump());
    std::vector<int32_t> ids = tokenizer.encode(first);
    const std::vector<int32_t> rest = tokenizer.encode(second);
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_FALSE(is_cut(first + second, first.size()));
    return ids != tokenizer.encode(first + second);
  };
  EXPECT_TRUE(changes(tokenizer_json(byte_level(true)), "a\n\n", "a"));                            // \s+(?!\S)
  EXPECT_TRUE(changes(tokenizer_json(byte_level(true)), "a ", "a"));                               // " a" is a word
  EXPECT_TRUE(changes(tokenizer_json(sequence({split(kLlama), byte_level(false)})), ".", "\n"));   // ".\n" is a word
  EXPECT_TRUE(changes(tokenizer_json(sequence({split(kGpt4o), byte_level(false)})), ".\n", "/"));  // ".\n/" is a word
}

TEST(tokenizer_cuts, tokenizers_that_depend_on_neighbours_have_no_cuts) {
  const json gpt2 = byte_level(true);
  const auto cut = [](const json& definition) { return Tokenizer::parse(definition.dump()).cut("one two", 7); };
  EXPECT_EQ(cut(tokenizer_json(gpt2)), 3u);
  EXPECT_EQ(cut(tokenizer_json(byte_level(true, true))), 0u);  // adds a space in front of every part
  EXPECT_EQ(cut(tokenizer_json(byte_level(false))), 0u);       // the text is one word
  EXPECT_EQ(cut(tokenizer_json(sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(false)}))), 0u);  // likewise
  EXPECT_EQ(cut(tokenizer_json(sequence({split("\\p{L}+ \\p{L}+"), byte_level(false)}))), 0u);
  EXPECT_EQ(cut(tokenizer_json(sequence({split(kLlama, "MergedWithNext"), byte_level(false)}))), 0u);
  EXPECT_EQ(cut(tokenizer_json(gpt2, {{"type", "NFKC"}})), 0u);
  EXPECT_EQ(cut(tokenizer_json(gpt2, nullptr, json::array({added_token(900, "New York", false)}))), 0u);
  EXPECT_EQ(cut(tokenizer_json(gpt2, nullptr, json::array({added_token(900, "\n>", false)}))), 0u);
  for (const char* strip : {"lstrip", "rstrip", "single_word"}) {
    EXPECT_EQ(cut(tokenizer_json(gpt2, nullptr, json::array({added_token(900, "<t>", false, strip)}))), 3u) << strip;
    EXPECT_EQ(cut(tokenizer_json(gpt2, {{"type", "NFC"}}, json::array({added_token(900, "<t>", true, strip)}))), 0u) << strip;
  }
  const json rstrip = tokenizer_json(gpt2, nullptr, json::array({added_token(900, "one", false, "rstrip")}));
  EXPECT_EQ(cut(rstrip), 0u);  // it takes the space
}

TEST(tokenizer_cuts, of_the_golden_models) {
  for (const std::string model : {"gpt2", "llama", "qwen3"})
    EXPECT_EQ(Tokenizer::load(WEFT_GOLDEN_MODELS "/" + model).cut("one two", 7), 3u) << model;
}

TEST(tokenizer_cuts, last_cut_within_the_limit) {
  EXPECT_EQ(last_cut("one two three", 13), 7u);
  EXPECT_EQ(last_cut("one two three", 7), 7u);
  EXPECT_EQ(last_cut("one two three", 6), 3u);
  EXPECT_EQ(last_cut("one two three", 2), 0u);
  EXPECT_EQ(last_cut("一。\n二", 20), 7u);
  EXPECT_EQ(last_cut("\xff \x80\n\xff", 5), 0u);  // not UTF-8
  EXPECT_EQ(last_cut("", 5), 0u);
}

}  // namespace
}  // namespace weft
