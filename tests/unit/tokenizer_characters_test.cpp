// BPE of characters: encoding in parts does not change the ids, whether the parts are cut by the caller or by the model; long words are not
// quadratic; the tokens of several files agree or are refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "weft/base/error.h"
#include "weft/io/tokenizer/joins.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::string kFolder = WEFT_GOLDEN_TOKENIZERS "/";

json read(const std::string& name) {
  std::ifstream file(kFolder + name);
  EXPECT_TRUE(file) << name;
  return json::parse(file);
}

// Golden texts, and texts of awkward parts: marks and spaces in runs, tokens beside them, characters with and without a token.
std::vector<std::string> many_texts() {
  std::vector<std::string> texts;
  for (const json& text : read("texts.json")) texts.push_back(text);
  const std::string parts[] = {" ",      " ",      "  ",  "▁",   "▁▁",     "\n",      "\n\n",     "\t",    "a",   "e",
                               "s",      "the",    "ing", "中",  "文",     "你好",    "😀",       "ꙮ",     "é",   "1",
                               "2024",   ".",      ",",   "<s>", "</s>",   "<|end|>", "<|user|>", "<bos>", "<b>", "[INST]",
                               "<mask>", "<word>", "<",   ">",   "\u3000", "\u00a0",  "の",       "가"};
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += parts[random() % std::size(parts)];
    texts.push_back(text);
  }
  return texts;
}

std::vector<int32_t> joined(std::vector<int32_t> ids, const std::vector<int32_t>& rest) {
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

json with_flags(json document, const char* flag, bool value = true) {
  for (json& token : document["added_tokens"]) token[flag] = value;
  return document;
}

std::vector<std::pair<std::string, json>> cuttable() {
  std::vector<std::pair<std::string, json>> found;
  for (const std::string family : {"llama2", "mistral", "gemma", "phi3", "metaspace"}) {
    const json base = read(family + "/tokenizer.json");
    found.emplace_back(family, base);
    for (const char* flag : {"lstrip", "rstrip", "single_word", "normalized"})
      found.emplace_back(family + ", " + flag, with_flags(base, flag));
    found.emplace_back(family + ", all", with_flags(with_flags(with_flags(base, "lstrip"), "rstrip"), "normalized"));
  }
  json split = read("mistral/tokenizer.json");
  split["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  found.emplace_back("mistral, split", split);
  json across = read("llama2/tokenizer.json");  // a merge across a mark: fewer places, not wrong ones
  for (const auto& [token, id] : {std::pair{"e▁", 2600}, {"e▁t", 2601}}) across["model"]["vocab"][token] = id;
  across["model"]["merges"].insert(across["model"]["merges"].begin(), {{"e", "▁"}, {"e▁", "t"}});
  found.emplace_back("merges across marks", across);
  json unknown = read("llama2/tokenizer.json");
  unknown["model"]["byte_fallback"] = false;
  found.emplace_back("unknown, fused", unknown);
  return found;
}

TEST(TokenizerCharacters, cuts_do_not_change_the_ids) {
  const std::vector<std::string> texts = many_texts();
  for (const auto& [name, definition] : cuttable()) {
    const Tokenizer tokenizer = Tokenizer::parse(definition.dump());
    int cuts = 0;
    for (size_t i = 0; i < texts.size(); i += 3) {
      const std::string& text = texts[i];
      const std::vector<int32_t> whole = tokenizer.encode(text, false);
      for (size_t at = text.size(); (at = tokenizer.cut(text, at - (at > 0)));) {  // every place, from the last
        ++cuts;
        ASSERT_EQ(joined(tokenizer.encode(text.substr(0, at), false), tokenizer.encode_rest(text.substr(at))), whole)
            << name << ": " << json(text).dump() << " at byte " << at;
      }
    }
    EXPECT_GT(cuts, 4000) << name;
  }
}

// Shows that the test above can fail: a part that is encoded as a text of its own has other ids, and so has one cut elsewhere.
TEST(TokenizerCharacters, other_places_change_the_ids) {
  const Tokenizer llama = Tokenizer::load(kFolder + "llama2");
  const std::string text = "the people of the river";
  ASSERT_EQ(llama.cut(text, 12), 10u);
  EXPECT_NE(joined(llama.encode("the people", false), llama.encode(" of the river", false)), llama.encode(text, false));
  EXPECT_NE(joined(llama.encode("the peo", false), llama.encode_rest("ple of the river")), llama.encode(text, false));
  EXPECT_EQ(llama.cut("x</s> y", 6), 0u);  // a text of its own begins after the token
  const Tokenizer phi = Tokenizer::load(kFolder + "phi3");
  EXPECT_EQ(phi.cut("<|end|> y", 8), 0u);  // the token takes the space
}

// With ignore_merges a word is never encoded in parts; a text that is no token has the same ids.
TEST(TokenizerCharacters, the_models_own_parts_do_not_change_the_ids) {
  const std::vector<std::string> texts = many_texts();
  for (const std::string family : {"llama2", "gemma", "mistral"}) {
    json definition = read(family + "/tokenizer.json");
    const Tokenizer parts = Tokenizer::parse(definition.dump());
    definition["model"]["ignore_merges"] = true;
    const Tokenizer whole = Tokenizer::parse(definition.dump());
    size_t compared = 0;
    for (size_t i = 0; i + 1 < texts.size(); ++i) {
      const std::string text = texts[i] + texts[i + 1] + " the end of it";
      ASSERT_EQ(parts.encode(text), whole.encode(text)) << family << ": " << json(text).dump();
      ++compared;
    }
    EXPECT_GT(compared, 5000u);
  }
}

TEST(TokenizerCharacters, a_long_word_is_not_quadratic) {
  std::string letters;
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) letters += char('a' + random() % 26);
  for (const std::string family : {"llama2", "mistral", "gemma", "metaspace"}) {
    json definition = read(family + "/tokenizer.json");
    const Tokenizer tokenizer = Tokenizer::parse(definition.dump());
    const std::vector<int32_t> ids = tokenizer.encode(letters, false);
    EXPECT_TRUE(family == "metaspace" || tokenizer.decode(ids) == letters) << family;  // metaspace has no token for j and z
    definition["model"]["ignore_merges"] = true;                                       // one word as a whole
    EXPECT_TRUE(Tokenizer::parse(definition.dump()).encode(letters, false) == ids) << family;
    EXPECT_FALSE(tokenizer.encode(std::string(300000, ' ')).empty());
  }
}

// Text without spaces, and of characters that all fall back to bytes, can be cut: memory stays bounded.
TEST(TokenizerCharacters, texts_without_spaces_have_cuts) {
  for (const std::string family : {"llama2", "mistral", "gemma", "phi3"}) {
    const Tokenizer tokenizer = Tokenizer::load(kFolder + family);
    for (const std::string unit : {"ꙮ", "ᚠᚢᚦ", "龘龘"}) {
      std::string text;
      while (text.size() < 4000) text += unit;
      EXPECT_GT(tokenizer.cut(text, 2000), 1900u) << family << ": " << unit;
    }
  }
}

TEST(TokenizerCharacters, pairs_of_characters) {
  Joins joins;
  std::mt19937 random(5);
  std::vector<std::pair<char32_t, char32_t>> added;
  for (int i = 0; i < 5000; ++i) {
    const auto any = [&] { return char32_t(random() % 3 == 0 ? random() % 128 : random() % 4 == 0 ? 0x2581 : random() % 0x3000); };
    added.emplace_back(any(), any());
    joins.add(added.back().first, added.back().second);
  }
  for (const auto& [left, right] : added) EXPECT_TRUE(joins.contains(left, right));
  EXPECT_FALSE(joins.contains(0x5000, 'a'));
  EXPECT_FALSE(joins.contains('a', 0x5000));
  EXPECT_FALSE(joins.contains(0x5000, 0x5000));
}

// Text comes out as early as it is certain: a run of byte tokens when it ends, the rest at once.
TEST(TokenizerCharacters, streams_what_is_certain) {
  const Tokenizer tokenizer = Tokenizer::load(kFolder + "llama2");
  const auto id = [&](const std::string& token) { return *tokenizer.id_of(token); };
  StreamingDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(id("▁the")), "the");
  EXPECT_EQ(stream.push(id("▁the")), " the");
  EXPECT_EQ(stream.push(id("<0xE4>")), "");
  EXPECT_EQ(stream.push(id("<0xB8>")), "");
  EXPECT_EQ(stream.push(id("<0xAD>")), "");
  EXPECT_EQ(stream.push(id("s")), "中s");
  EXPECT_EQ(stream.push(id("<0xE4>")), "");
  EXPECT_EQ(stream.push(id("<0x41>")), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd\xef\xbf\xbd");  // not UTF-8: one U+FFFD a byte
  EXPECT_EQ(stream.push(id("▁the")), "the");               // a new text
  EXPECT_EQ(tokenizer.bytes_of(id("▁the")), " the");
  EXPECT_EQ(tokenizer.bytes_of(id("<0xE4>")), "\xe4");
  EXPECT_EQ(tokenizer.kind(), "BPE of characters");
}

class SpecialTokens : public testing::Test {
 protected:
  SpecialTokens() : folder(fs::temp_directory_path() / ("weft_special_tokens_" + std::to_string(::getpid()))) {
    fs::create_directories(folder);
    fs::copy(kFolder + "llama2/tokenizer.json", folder / "tokenizer.json");
  }
  ~SpecialTokens() override { fs::remove_all(folder); }
  void write(const std::string& name, const json& value) { std::ofstream(folder / name) << value; }
  std::string error() {
    try {
      Tokenizer::load(folder.string());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      return error.what();
    }
    return "";
  }
  std::string at(const std::string& name) { return (folder / name).string(); }
  fs::path folder;
};

TEST_F(SpecialTokens, files_that_agree) {
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"0", {{"content", "<unk>"}}}, {"1", {{"content", "<s>"}, {"special", true}}}}},
                                  {"bos_token", "<s>"},
                                  {"eos_token", {{"content", "</s>"}}},
                                  {"pad_token", "[PAD]"}});
  write("special_tokens_map.json", {{"bos_token", {{"content", "<s>"}}}, {"eos_token", "</s>"}});
  EXPECT_EQ(error(), "");
  const Tokenizer tokenizer = Tokenizer::load(folder.string());
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.pad_id(), std::nullopt);
}

TEST_F(SpecialTokens, contradictions_name_both_files_and_values) {
  const std::string config = at("tokenizer_config.json"), tokenizer = at("tokenizer.json"), map = at("special_tokens_map.json");
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"5", {{"content", "<s>"}}}}}});
  EXPECT_EQ(error(), config + ": $.added_tokens_decoder gives '<s>' the id 5, but " + tokenizer + " gives it the id 1");
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"1", {{"content", "<begin>"}}}}}});
  EXPECT_EQ(error(), config + ": $.added_tokens_decoder gives the id 1 to '<begin>', but " + tokenizer + " gives it to '<s>'");
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"x", {{"content", "<s>"}}}}}});
  EXPECT_EQ(error(), config + ": $.added_tokens_decoder has the key 'x', expected the id of a token");
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"90000000", {{"content", "<far>"}}}}}});
  EXPECT_NE(error().find("gives '<far>' the id 90000000, expected one below"), std::string::npos) << error();
  write("tokenizer_config.json", {{"eos_token", "<|im_end|>"}});
  EXPECT_EQ(error(), config + ": $.eos_token is '<|im_end|>', which is not a token of " + tokenizer);
  write("tokenizer_config.json", {{"eos_token", "</s>"}});
  write("special_tokens_map.json", {{"eos_token", {{"content", "<unk>"}}}});
  EXPECT_EQ(error(), map + ": $.eos_token names the token '<unk>', but " + config + " names '</s>'");
  write("special_tokens_map.json", {{"eos_token", ""}, {"pad_token", "<unk>"}});
  EXPECT_EQ(error(), "");
}

// A token that only tokenizer_config.json has is added with its id and its flags.
TEST_F(SpecialTokens, of_the_config_alone) {
  write("tokenizer_config.json",
        {{"added_tokens_decoder", {{"2600", {{"content", "<|end|>"}, {"rstrip", true}, {"normalized", false}, {"special", true}}}}},
         {"eos_token", "<|end|>"}});
  const Tokenizer tokenizer = Tokenizer::load(folder.string());
  EXPECT_EQ(tokenizer.eos_id(), 2600);
  EXPECT_EQ(tokenizer.vocab_size(), 2601);
  EXPECT_TRUE(tokenizer.is_special(2600));
  EXPECT_EQ(tokenizer.encode("<|end|>  ", false), std::vector<int32_t>{2600});
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{2600}), "<|end|>");
}

}  // namespace
}  // namespace weft
