// The text of a continuation, and where the tokens of a text begin in it, with the tokenizers of model families.
#include "weft/serve/text_offsets.h"

#include <gtest/gtest.h>

#include "weft/base/check.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/serve/sequence_text.h"

namespace weft::serve {
namespace {

Tokenizer tokenizer_of(const std::string& family) { return Tokenizer::load(join(WEFT_GOLDEN_TOKENIZERS, "/", family)); }

// The text from a character on.
std::string_view from(std::string_view text, int64_t characters) {
  size_t at = 0;
  for (; characters > 0 && at < text.size(); --characters) at += utf8_step(text.substr(at)).length;
  return text.substr(at);
}

// The tokens of `text` stand at their offsets: special ones that are spelled out, others with or without the space before a word. A part of
// a character behind another one is at the next character.
void expect_in_place(const Tokenizer& tokenizer, std::string_view text, size_t unlike = 0) {
  const std::vector<int32_t> ids = tokenizer.encode_prompt(text);
  const std::vector<int64_t> offsets = prompt_offsets(&tokenizer, ids, text);
  ASSERT_EQ(offsets.size(), ids.size());
  size_t wrong = 0;
  for (size_t i = tokenizer.before().size(); i < ids.size(); ++i) {
    const std::string_view token = tokenizer.is_special(ids[i]) ? tokenizer.token_of(ids[i]) : tokenizer.bytes_of(ids[i]);
    const std::string_view there = from(text, offsets[i]);
    if (first_invalid_utf8(token) != token.size()) continue;
    wrong += !there.starts_with(token) && !(token.starts_with(' ') && there.starts_with(token.substr(1)));
  }
  EXPECT_LE(wrong, unlike) << text;
  for (size_t i = 0; i < tokenizer.before().size(); ++i) EXPECT_EQ(offsets[i], 0) << text;
}

TEST(TextOffsets, OfPrompts) {
  for (const char* family : {"gpt2", "llama2", "llama3", "mistral", "gemma", "phi3", "qwen2.5"}) {
    const Tokenizer tokenizer = tokenizer_of(family);
    SCOPED_TRACE(family);
    for (const char* text :
         {"Hello World, and more of it", " Hello", "  two  spaces\n\nand lines\n", "na\u00efve \u4e16\u754c \U0001f600 end", "a", ""})
      expect_in_place(tokenizer, text);
  }
  for (const char* text : {"</s>Hello <s> World", "a</s> b", "</s>", "one </s></s> two three"})
    expect_in_place(tokenizer_of("llama2"), text);
  for (const char* text : {"<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "<tool_call> {} </tool_call>"})
    expect_in_place(tokenizer_of("qwen2.5"), text);
  expect_in_place(tokenizer_of("phi3"), "<|user|>\n  Hello<|end|>\n<|assistant|> \n World");
  // NFC makes one character of two: that token is unlike its text, those behind it are found.
  expect_in_place(tokenizer_of("qwen2.5"), "cafe\u0301 and more words", 1);
}

TEST(TextOffsets, OfASpaceThatIsNotInTheText) {
  const Tokenizer tokenizer = tokenizer_of("llama2");
  const std::string text = "a b";
  const std::vector<int32_t> ids = tokenizer.encode_prompt(text);
  ASSERT_EQ(ids.size(), 3u);  // BOS, " a", " b"
  EXPECT_EQ(prompt_offsets(&tokenizer, ids, text), (std::vector<int64_t>{0, 0, 1}));
}

TEST(TextOffsets, WithoutATokenizer) {
  const std::vector<int32_t> ids = {5, 6};
  EXPECT_EQ(prompt_offsets(nullptr, ids, ""), (std::vector<int64_t>{0, 0}));
  TextLength length;
  length.add_token(nullptr, 5);
  EXPECT_EQ(length.characters(), 0);
}

TEST(TextOffsets, OfPartsOfCharacters) {
  TextLength length("\u00e9");
  EXPECT_EQ(length.characters(), 1);
  std::vector<int64_t> before;
  for (const char* bytes : {"a", "\xf0\x9f", "\x98", "\x80", "b", "\x80", "\xe2\x80", "c", "\xff\xff", "d"}) {
    before.push_back(length.characters());
    length.add(bytes);
  }
  // "a", a smile of three parts, "b", U+FFFD, U+FFFD, "c", two U+FFFD, "d"
  EXPECT_EQ(before, (std::vector<int64_t>{1, 2, 3, 3, 3, 4, 5, 6, 7, 9}));
  EXPECT_EQ(length.characters(), 10);
}

// The text of `like`, in which words begin with a space, as an answer and as a continuation.
TEST(SequenceText, AnAnswerHasNoSpaceBeforeItsFirstWord) {
  const Tokenizer tokenizer = tokenizer_of("llama2");
  const auto text_of = [&](const std::string& like, bool answer, std::vector<std::string> stop) {
    SequenceText text(&tokenizer, std::move(stop), answer);
    std::string all;
    for (const int32_t id : tokenizer.encode(like, /*add_special=*/true)) all += text.push(id);
    return all + text.finish() + (text.stopped() ? "|" : "");
  };
  EXPECT_EQ(text_of("Hello World", true, {}), "Hello World");
  EXPECT_EQ(text_of("Hello World", false, {}), " Hello World");
  EXPECT_EQ(text_of("Hello World", true, {" "}), "Hello|");
  EXPECT_EQ(text_of("Hello World", false, {" "}), "|");
  EXPECT_EQ(text_of("Hello World", true, {"Hello"}), "|");
  EXPECT_EQ(text_of("  Hello", true, {}), "  Hello");
  EXPECT_EQ(text_of("  Hello", true, {"   "}), "  Hello");
  EXPECT_EQ(text_of("\u00e9 e", true, {" "}), "\u00e9|");
}

}  // namespace
}  // namespace weft::serve
