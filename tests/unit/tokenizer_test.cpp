#include "weft/io/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "weft/base/error.h"
#include "weft/io/tokenizer/normalizer.h"

namespace weft {
namespace {

using nlohmann::json;

json read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return json::parse(file);
}

// Every line of {"text", "ids", "decoded"}, as produced by the `tokenizers` library.
void expect_lines(const Tokenizer& tokenizer, const json& lines, const std::string& name) {
  ASSERT_FALSE(lines.empty()) << name;
  const auto unknown = name == "unknown_left_out" ? Tokenizer::Unknown::left_out : Tokenizer::Unknown::refused;
  for (const json& line : lines) {
    const std::string text = line["text"];
    const auto ids = line["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.encode(text, true, unknown), ids) << name << ": " << line["text"].dump();
    EXPECT_EQ(tokenizer.decode(ids), line["decoded"].get<std::string>()) << name << ": " << line["text"].dump();
    if (line.contains("skipped")) {
      EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/true), line["skipped"].get<std::string>()) << name << ": " << line["text"].dump();
    }
    StreamingDecoder stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(id);
    EXPECT_EQ(streamed + stream.finish(), line["decoded"].get<std::string>()) << name;
  }
}

TEST(Tokenizer, golden_models) {
  for (const std::string model : {"gpt2", "llama", "qwen3"}) {
    const std::string folder = WEFT_GOLDEN_MODELS "/" + model;
    expect_lines(Tokenizer::load(folder), read(folder + "/expected_tokens.json"), model);
  }
}

// One small vocabulary under many settings: each variant is a patch of the golden llama tokenizer.
json patched(json tokenizer, const json& patch) {
  for (const auto& [path, value] : patch.items())
    if (path != "remove") tokenizer[json::json_pointer(path)] = value;
  if (patch.contains("remove"))
    for (const json& path : patch["remove"])
      tokenizer["model"]["vocab"].erase(path.get<std::string>().substr(std::string("/model/vocab/").size()));
  return tokenizer;
}

TEST(Tokenizer, variants) {
  const json base = read(WEFT_GOLDEN_MODELS "/llama/tokenizer.json");
  const json variants = read(WEFT_GOLDEN_MODELS "/tokenizer_variants/variants.json");
  for (const json& variant : variants["variants"]) {
    const std::string name = variant["name"];
    json lines = json::array();
    for (size_t i = 0; i < variant["ids"].size(); ++i) {
      const json& text = variants["texts"][i];
      const json& decoded = variant["decoded"][i].is_null() ? text : variant["decoded"][i];
      const json& skipped = variant["skipped"][i].is_null() ? decoded : variant["skipped"][i];
      lines.push_back({{"text", text}, {"ids", variant["ids"][i]}, {"decoded", decoded}, {"skipped", skipped}});
    }
    expect_lines(Tokenizer::parse(patched(base, variant["patch"]).dump()), lines, name);
  }
}

class TokenizerRefuses : public testing::Test {
 protected:
  void refuses(const json& patch, ErrorCode code, const std::string& reason) { refuses_text(patched(base_, patch).dump(), code, reason); }
  void refuses_text(const std::string& text, ErrorCode code, const std::string& reason) {
    try {
      Tokenizer::parse(text, "folder/tokenizer.json");
      ADD_FAILURE() << "accepted: " << reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find("folder/tokenizer.json"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
  static json split(const std::string& pattern) {
    return {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}},
              {{"type", "ByteLevel"}, {"use_regex", false}}}}};
  }
  json base_ = read(WEFT_GOLDEN_MODELS "/llama/tokenizer.json");
};

TEST_F(TokenizerRefuses, unsupported_features_by_name) {
  const auto code = ErrorCode::unsupported;
  refuses({{"/model/type", "Unigram"}}, code, "'Unigram'");
  refuses({{"/model/byte_fallback", true}, {"remove", {"/model/vocab/`"}}}, code, "$.model.byte_fallback");
  refuses({{"/model/dropout", 0.1}}, code, "dropout");
  refuses({{"/model/end_of_word_suffix", "</w>"}}, code, "</w>");
  refuses({{"/model/continuing_subword_prefix", "##"}}, code, "##");
  refuses({{"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", ""}}}}, code, "'Precompiled'");
  refuses({{"/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "\\w"}}}, {"content", ""}}}}, code, "'\\w'");
  refuses({{"/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}}}}, code, "'Lowercase'");
  refuses({{"/pre_tokenizer", {{"type", "Whitespace"}}}}, code, "'Whitespace'");
  refuses({{"/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}}},
           {"/normalizer", {{"type", "Prepend"}, {"prepend", "_"}}}},
          code, "prepend_scheme 'first'");
  refuses({{"/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}}}}, code,
          "after ByteLevel");
  refuses({{"/post_processor", {{"type", "RobertaProcessing"}}}}, code, "'RobertaProcessing'");
  refuses({{"/decoder", {{"type", "WordPiece"}}}}, code, "'WordPiece'");
  refuses({{"/decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, {{"type", "CTC"}}}}}}}, code,
          "$.decoder.decoders[1] is the decoder 'CTC'");
  refuses({{"/pre_tokenizer", split("\\w+")}}, code, "'\\w'");
  refuses({{"/pre_tokenizer", split("[a-z&&[^b]]")}}, code, "intersection");
  refuses({{"/pre_tokenizer", split("\\p{N}{1,3}+")}}, code, "'}+'");
  refuses({{"/pre_tokenizer", split("a(?i)b")}}, code, "group of this kind");
}

TEST_F(TokenizerRefuses, errors_with_json_path) {
  const auto code = ErrorCode::bad_file;
  refuses_text("", code, "not valid JSON");
  refuses_text("[]", code, "expected an object");
  refuses_text(std::string(100000, '['), code, "levels deep");
  refuses({{"/model/vocab/a", -1}}, code, "'a' the id -1");
  refuses({{"/model/vocab/a", 4000000000}}, code, "'a' the id 4000000000");
  refuses({{"/model/vocab/a", 5}}, code, "gives id 5 to both");
  refuses({{"/model/vocab", json::object()}}, code, "is empty");
  refuses({{"/model/merges/3", "a b c"}}, code, "$.model.merges [3]");
  refuses({{"/model/merges/3", {"a", "zzzz"}}}, code, "'zzzz'");
  refuses({{"/added_tokens/0/id", 7}}, code, "'<s>' the id 7");
  refuses({{"/added_tokens/0/content", ""}}, code, "$.added_tokens[0].content");
  refuses({{"/pre_tokenizer", split("[a")}}, code, "not a valid pattern");
  refuses({{"/pre_tokenizer", split("(")}}, code, "not a valid pattern");
  refuses({{"/decoder", nullptr}}, code, "no 'decoder'");
  refuses({{"/decoder", {{"type", "Strip"}, {"content", "ab"}, {"start", 1}, {"stop", 0}}}}, code, "is 'ab', expected one character");
  refuses({{"/decoder", {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}}}}, code, "$.decoder.start");
  refuses({{"/pre_tokenizer", {{"type", "Metaspace"}}}}, code, "no 'replacement'");
  refuses({{"/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}}}, code,
          "expected always, first or never");
  refuses({{"/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}}}},
          code, "add_prefix_space false");
  refuses({{"/normalizer", {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}}}}, code, "empty pattern");
  refuses({{"/normalizer", {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", std::string(5000, 'x')}}}}, code,
          "5000 bytes");
  refuses({{"/normalizer", {{"type", "Replace"}, {"pattern", {{"Text", "x"}}}, {"content", ""}}}}, code, "either 'Regex' or 'String'");
  refuses({{"/normalizer", {{"type", "Prepend"}, {"prepend", std::string(5000, 'x')}}}}, code, "5000 bytes");
  refuses({{"/post_processor", {{"type", "TemplateProcessing"}, {"single", json::array()}, {"special_tokens", json::object()}}}}, code,
          "no place for the text");
}

TEST(Tokenizer, rejects_invalid_utf8) {
  const Tokenizer tokenizer = Tokenizer::load(WEFT_GOLDEN_MODELS "/llama");
  for (const std::string text : {"ab\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe2\x82"})
    EXPECT_THROW(tokenizer.encode(text), Error);
}

TEST(Tokenizer, error_names_a_missing_character) {
  const json patch = {{"remove", {"/model/vocab/ð", "/model/vocab/`"}}};
  const Tokenizer tokenizer =
      Tokenizer::parse(patched(read(WEFT_GOLDEN_MODELS "/llama/tokenizer.json"), patch).dump(), "letters/tokenizer.json");
  for (const auto& [text, character] : {std::pair<std::string, std::string>{"a`b", "'`' (byte 96)"}, {"so 😀", "'😀' (byte 240)"}})
    for (int time = 0; time < 2; ++time) {
      try {
        tokenizer.encode(text);
        FAIL() << text;
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()), "letters/tokenizer.json: has no token for the character " + character + " and no unk_token");
      }
      EXPECT_NE(tokenizer.decode(tokenizer.encode(text, true, Tokenizer::Unknown::left_out)), text);  // not cached for the next call
    }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab")), "ab");
  EXPECT_EQ(encode_text(tokenizer, "ab", "book.txt"), tokenizer.encode("ab"));
  try {
    encode_text(tokenizer, "a`", "book.jsonl:3");
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("book.jsonl:3: letters/tokenizer.json: has no token")) << error.what();
  }
}

TEST(Tokenizer, ids_tokens_and_bytes) {
  const Tokenizer tokenizer = Tokenizer::load(WEFT_GOLDEN_MODELS "/llama");
  EXPECT_EQ(tokenizer.vocab_size(), 640);
  EXPECT_EQ(tokenizer.id_of("</s>"), 1);
  EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_FALSE(tokenizer.is_special(100));
  EXPECT_EQ(tokenizer.pieces(tokenizer.encode(" a")), std::vector<std::string>{"Ġa"});
  EXPECT_EQ(tokenizer.bytes_of(tokenizer.encode(" a")[0]), " a");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{-1, 640, INT32_MAX}), "");
}

// Tokens of single bytes: a character is returned with its last byte, not before.
TEST(Tokenizer, streaming_never_splits_a_character) {
  const Tokenizer tokenizer = Tokenizer::load(WEFT_GOLDEN_MODELS "/llama");
  const auto ids = tokenizer.encode("é😀");
  ASSERT_EQ(ids.size(), 6u);
  StreamingDecoder stream(tokenizer);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(stream.push(id));
  EXPECT_EQ(out, (std::vector<std::string>{"", "é", "", "", "", "😀"}));
  EXPECT_EQ(stream.push(ids[2]), "");
  EXPECT_EQ(stream.push(ids[0]), "\xef\xbf\xbd");  // the started character can no longer be completed
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
}

TEST(Tokenizer, long_word_is_not_quadratic_and_threads_agree) {
  const Tokenizer tokenizer = Tokenizer::load(WEFT_GOLDEN_MODELS "/llama");
  std::string word;
  for (int i = 0; i < 300000; ++i) word += "serndlito"[i * 7 % 9];
  const auto ids = tokenizer.encode(word);
  EXPECT_EQ(tokenizer.decode(ids), word);
  std::vector<std::vector<int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = tokenizer.encode(word + " and some more words, " + word); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Tokenizer, says_what_does_nothing) {
  const json base = read(WEFT_GOLDEN_MODELS "/llama/tokenizer.json");
  EXPECT_TRUE(Tokenizer::parse(base.dump()).ignored().empty());
  const json set = {{"/truncation", {{"max_length", 8}}}, {"/padding", {{"strategy", "BatchLongest"}}}};
  const Tokenizer tokenizer = Tokenizer::parse(patched(base, set).dump());
  EXPECT_EQ(tokenizer.ignored(), (std::vector<std::string>{"truncation", "padding"}));
  EXPECT_GT(tokenizer.encode(std::string(500, '!')).size(), 8u);
  EXPECT_EQ(tokenizer.kind(), "byte-level BPE");
}

// A sequence of replacements that each make a text longer is stopped.
TEST(Tokenizer, a_normalizer_cannot_take_all_memory) {
  const json base = read(WEFT_GOLDEN_MODELS "/llama/tokenizer.json");
  json steps = json::array();
  for (int i = 0; i < 20; ++i) steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(900, 'a')}});
  const Tokenizer tokenizer = Tokenizer::parse(patched(base, {{"/normalizer", {{"type", "Sequence"}, {"normalizers", steps}}}}).dump());
  EXPECT_FALSE(tokenizer.encode("b").empty());
  EXPECT_THROW(tokenizer.encode("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), Error);
}

// More characters without a delimiter than the backtracking limit allows on one.
TEST(Tokenizer, distant_delimiter) {
  const json base = read(WEFT_GOLDEN_MODELS "/llama/tokenizer.json");
  const json each = {{"type", "Digits"}, {"individual_digits", true}};
  const json bytes = {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}};
  const json digits = {{"type", "Sequence"}, {"pretokenizers", {each, bytes}}};
  const Tokenizer tokenizer = Tokenizer::parse(patched(base, {{"/pre_tokenizer", digits}}).dump());
  const std::string text = std::string(1500000, 'a') + "1";
  EXPECT_EQ(tokenizer.encode(text).size(), text.size());
}

// Llama 3's pattern matches all of them, backtracks over each for want of a line end, and matches them again.
TEST(Tokenizer, long_run_of_spaces) {
  const json base = read(WEFT_GOLDEN_MODELS "/llama/tokenizer.json");
  const json spaces = {{"type", "Sequence"},
                       {"pretokenizers",
                        {{{"type", "Split"}, {"pattern", {{"Regex", "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}}, {"behavior", "Isolated"}},
                         {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}}}}};
  const Tokenizer tokenizer = Tokenizer::parse(patched(base, {{"/pre_tokenizer", spaces}}).dump());
  const std::string text(1500000, ' ');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

// Their canonical order is a sort, not an exchange of neighbours.
TEST(Tokenizer, long_run_of_combining_marks) {
  constexpr int kPairs = 300000;
  std::string pairs, sorted[2];  // acute accents (class 230) go behind cedillas (202)
  for (int i = 0; i < kPairs; ++i) {
    pairs += "\u0301\u0327";
    sorted[0] += "\u0327";
    sorted[1] += "\u0301";
  }
  const std::string marks = sorted[0] + sorted[1];
  EXPECT_TRUE(Normalizer({NormalForm::nfd}).apply("x" + pairs + "y") == "x" + marks + "y");
  EXPECT_TRUE(Normalizer({NormalForm::nfkd}).apply(pairs + "\ufb01" + pairs) == marks + "fi" + marks);
  EXPECT_TRUE(Normalizer({NormalForm::nfc}).apply("e" + pairs) == "\u0229" + marks.substr(2));
  EXPECT_TRUE(Normalizer({NormalForm::nfkc}).apply("\u00e9" + pairs) == "\u0229" + marks.substr(2) + "\u0301");
}

// The result of tokenizers 0.23: its tables do not know U+0898, U+11935, U+11930 and U+32FF.
TEST(Tokenizer, characters_newer_than_the_tables_are_kept) {
  for (const NormalForm form : {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc, NormalForm::nfkd})
    for (const std::string text : {"a\u0898\u0327", "\U00011935\U00011930", "\u32ff", "\u0327\u0898"})
      EXPECT_EQ(Normalizer({form}).apply(text), text);
  EXPECT_EQ(Normalizer({NormalForm::nfc}).apply("a\u0301\u0898\u0327\u0301"), "\u00e1\u0898\u0327\u0301");
}

}  // namespace
}  // namespace weft
