// Vocabularies with the tokens of a chat template: their ids are those of the tokenizer that is written, and conversations in the data keep
// the tokens that the template gave them.
#include "weft/data/chat_vocabulary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "weft/base/check.h"
#include "weft/data/prepared.h"
#include "weft/data/token_cache.h"
#include "weft/models/tokenizer_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

class ChatVocabularyTest : public testing::Test {
 protected:
  ChatVocabularyTest() { fs::create_directories(folder); }
  ~ChatVocabularyTest() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  Ids cached(const std::string& path, const Vocabulary& vocabulary, const ConversationReader& reader = {}) const {
    const TokenCache cache(Documents(path, {}, reader), vocabulary, (folder / "cache").string());
    Ids ids;
    for (int64_t i = 0; i < cache.size(); ++i) ids.push_back(cache[i]);
    return ids;
  }
  const fs::path folder = fs::temp_directory_path() / ("weft_chat_vocabulary_" + std::to_string(::getpid()));
};

std::vector<char32_t> letters() {
  std::vector<char32_t> all = {U'\n', U'é', U'你'};
  for (char32_t c = U' '; c < 127; ++c) all.push_back(c);
  return all;
}

std::vector<std::unique_ptr<Vocabulary>> bases() {
  std::vector<std::unique_ptr<Vocabulary>> all;
  all.push_back(byte_vocabulary());
  all.push_back(character_vocabulary(letters()));
  all.push_back(character_vocabulary(letters(), /*end_of_text=*/true));
  for (const char* model : {"/gpt2", "/llama", "/qwen3"}) all.push_back(tokenizer_vocabulary(std::string(WEFT_GOLDEN_MODELS) + model));
  return all;
}

constexpr std::string_view kTalk = "<|im_start|>user\nHé, 你 <|im_start <|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n";

TEST_F(ChatVocabularyTest, IdsAreThoseOfTheWrittenTokenizer) {
  for (auto& base : bases()) {
    const std::string kind = base->kind();
    const int64_t before = base->size();
    Ids plain, same;
    base->encode("Yes", plain, "text");
    const auto vocabulary = chat_vocabulary(std::move(base), chat_template("chatml"));
    vocabulary->encode("Yes", same, "text");
    EXPECT_EQ(plain, same) << kind;  // text without the tokens keeps its ids
    Ids ids;
    vocabulary->encode(kTalk, ids, "text");
    vocabulary->write_files(folder.string());
    const TokenizerFolder written(folder.string());
    const Tokenizer& tokenizer = written.tokenizer();
    EXPECT_EQ(tokenizer.encode(kTalk, false), ids) << kind;
    EXPECT_EQ(vocabulary->decode(ids), kTalk) << kind;
    EXPECT_EQ(tokenizer.decode(ids, false), kTalk) << kind;
    const int32_t start = tokenizer.id_of("<|im_start|>").value(), end = tokenizer.id_of("<|im_end|>").value();
    EXPECT_EQ(start, before) << kind;
    EXPECT_EQ(end, before + 1) << kind;
    EXPECT_EQ(vocabulary->size(), before + 2) << kind;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 2) << kind;
    EXPECT_TRUE(tokenizer.is_special(start) && tokenizer.is_special(end)) << kind;
    EXPECT_EQ(tokenizer.eos_id(), end) << kind;
    EXPECT_EQ(vocabulary->special_ids().eos_ids.front(), end) << kind;
    EXPECT_TRUE(fs::exists(folder / "chat_template.jinja"));
  }
}

TEST_F(ChatVocabularyTest, TokensThatAreThereAreTaken) {
  const auto first = chat_vocabulary(byte_vocabulary(), chat_template("chatml"));
  first->write_files(folder.string());
  const auto second = chat_vocabulary(tokenizer_vocabulary(folder.string()), chat_template("chatml"));
  EXPECT_EQ(second->size(), first->size());
  Ids a, b;
  first->encode(kTalk, a, "text");
  second->encode(kTalk, b, "text");
  EXPECT_EQ(a, b);
  EXPECT_EQ(second->special_ids().eos_ids, (std::vector<int64_t>{258}));
}

TEST_F(ChatVocabularyTest, ACutIsNeverInsideAToken) {
  const auto vocabulary = chat_vocabulary(byte_vocabulary(), chat_template("chatml"));
  Ids whole;
  vocabulary->encode(kTalk, whole, "text");
  for (size_t most = 1; most < kTalk.size(); ++most) {
    const size_t cut = vocabulary->cut(kTalk, most);
    if (cut == 0) continue;
    EXPECT_LE(cut, most);
    Ids parts;
    vocabulary->encode(kTalk.substr(0, cut), parts, "text");
    vocabulary->encode(kTalk.substr(cut), parts, "text");
    EXPECT_EQ(parts, whole) << most;
  }
}

TEST_F(ChatVocabularyTest, HashesDiffer) {
  const auto plain = byte_vocabulary(), chat = chat_vocabulary(byte_vocabulary(), chat_template("chatml"));
  const auto other = chat_vocabulary(character_vocabulary(letters()), chat_template("chatml"));
  EXPECT_NE(plain->hash(), chat->hash());
  EXPECT_NE(chat->hash(), other->hash());
  EXPECT_THROW(chat_template("chatlm"), Error);
}

// "T" is the text of a document, "C" a conversation that ends as it is given; 256 separates documents, 258 ends a turn.
TEST_F(ChatVocabularyTest, ConversationsBesideTexts) {
  const auto vocabulary = chat_vocabulary(byte_vocabulary(), chat_template("chatml"));
  const ConversationReader reader{[](std::string_view, const std::string&) { return std::string("C<|im_end|>\n"); }, 1};
  const std::string path = write("mixed.jsonl", R"({"text": "T"}
{"messages": []}
{"messages": [], "text": "T"}
{"messages": []})");
  EXPECT_EQ(cached(path, *vocabulary, reader), (Ids{'T', 256, 'C', 258, '\n', 256, 'T', 256, 'C', 258, '\n'}));
  // A separator that ends the conversation already is not repeated.
  const ConversationReader ended{[](std::string_view, const std::string&) { return std::string("C<|endoftext|> \n"); }, 2};
  vocabulary->write_files(folder.string());
  const auto tokenizer = tokenizer_vocabulary(folder.string(), "<|endoftext|>");
  EXPECT_EQ(cached(path, *tokenizer, ended), (Ids{'T', 256, 'C', 256, ' ', '\n', 'T', 256, 'C', 256, ' ', '\n'}));
  // Without a reader a conversation is refused, and the cache knows the template.
  try {
    cached(path, *vocabulary);
    FAIL() << "a conversation without a reader was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("mixed.jsonl:2: has no field \"text\""), std::string::npos) << error.what();
  }
  Inputs first = inputs_of(Documents(path, {}, reader), *vocabulary);
  const Inputs second = inputs_of(Documents(path, {}, ended), *vocabulary);
  EXPECT_NE(cache_name(first), cache_name(second));
  EXPECT_EQ(difference(first, second, /*conversations=*/true), "the chat template is another one");
  EXPECT_EQ(difference(first, second, /*conversations=*/false), "");
}

// A tokenizer that begins every text with a token leaves conversations as the template writes them.
TEST_F(ChatVocabularyTest, ConversationsGetNoTokensAround) {
  byte_vocabulary()->write_files(folder.string());
  write("tokenizer_config.json", R"({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "add_bos_token": true})");
  const auto vocabulary = tokenizer_vocabulary(folder.string());
  const ConversationReader reader{[](std::string_view, const std::string&) { return std::string("C"); }, 1};
  const std::string path = write("mixed.jsonl", "{\"text\": \"T\"}\n{\"messages\": []}\n");
  EXPECT_EQ(cached(path, *vocabulary, reader), (Ids{256, 'T', 256, 'C'}));
}

}  // namespace
}  // namespace weft
