// Tokenising: the same file for any number of threads, and the ids that the vocabulary gives a whole document.
#include "weft/data/token_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tests/unit/observed.h"
#include "weft/base/check.h"
#include "weft/io/atomic_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class TokenCacheTest : public testing::Test {
 protected:
  TokenCacheTest() { fs::create_directories(folder); }
  ~TokenCacheTest() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::string cache_of(const std::string& path, const Vocabulary& vocabulary, int threads) const {
    const std::string in = (folder / "cache" / std::to_string(threads)).string();
    return contents(fs::path(TokenCache(Documents(path), vocabulary, in, {}, threads).path()) / "shard-00000.tokens");
  }
  const fs::path folder = fs::temp_directory_path() / ("weft_token_cache_" + std::to_string(::getpid()));
};

// Lines of words in several scripts, with blank lines and numbers between them.
std::string text_of(size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  const char* words[] = {"the", "Morning", "naïve",   "слово", "文字", "12345", "isn't",
                         "...", "\t",      "e\u0301", "\n\n",  "(so)", "\n",    "x = 3;"};
  std::string text;
  while (text.size() < bytes) text += join(words[random() % std::size(words)], random() % 9 == 0 ? "\n" : " ");
  return text;
}

std::vector<std::unique_ptr<Vocabulary>> vocabularies(const std::string& text) {
  std::vector<char32_t> characters = {U'\n'};
  for (size_t at = 0; at < text.size();) characters.push_back(next_character(text, at, "text"));
  std::vector<std::unique_ptr<Vocabulary>> all;
  all.push_back(byte_vocabulary());
  all.push_back(character_vocabulary(characters, /*end_of_text=*/true));
  for (const char* model : {"/gpt2", "/llama"}) all.push_back(tokenizer_vocabulary(std::string(WEFT_GOLDEN_MODELS) + model, "\n"));
  return all;
}

TEST_F(TokenCacheTest, long_text_has_the_ids_of_the_whole) {
  const std::string text = text_of(700'000, 1), path = write("long.txt", text);
  for (const auto& vocabulary : vocabularies(text)) {
    std::vector<int32_t> ids;
    vocabulary->encode(text, ids, path);
    const TokenCache cache(Documents(path), *vocabulary, (folder / "cache").string());
    ASSERT_EQ(cache.size(), int64_t(ids.size())) << vocabulary->kind();
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(cache[int64_t(i)], ids[i]) << vocabulary->kind() << " " << i;
  }
}

TEST_F(TokenCacheTest, file_does_not_depend_on_threads) {
  std::string all, lines;
  for (unsigned i = 0; i < 3000; ++i) {
    const std::string text = i % 100 == 7 ? "" : text_of(i % 500 == 0 ? 200'000 : i % 60, i);
    lines += nlohmann::json{{"text", text}}.dump() + "\n";
    all += text;
  }
  write("in/a.jsonl", lines);
  write("in/b.txt", text_of(300'000, 5));
  all += text_of(1000, 5);
  for (const auto& vocabulary : vocabularies(all)) {
    const std::string one = cache_of((folder / "in").string(), *vocabulary, 1);
    EXPECT_GT(one.size(), 100'000u);
    for (const int threads : {2, 3, 16})
      EXPECT_TRUE(cache_of((folder / "in").string(), *vocabulary, threads) == one) << vocabulary->kind() << " " << threads;
  }
}

// Longer than the in-memory limit, with only blank lines between its words.
TEST_F(TokenCacheTest, text_without_a_cut) {
  std::string text = "first";
  while (text.size() <= size_t(5) << 20) text += "\n\nword";
  const auto tokenizer = tokenizer_vocabulary(std::string(WEFT_GOLDEN_MODELS) + "/gpt2", "\n");
  ASSERT_EQ(tokenizer->cut(text, text.size()), 0u);
  const std::string path = write("one.jsonl", nlohmann::json{{"text", "before"}}.dump() + "\n" + nlohmann::json{{"text", text}}.dump());
  std::vector<int32_t> ids;
  tokenizer->encode("before", ids, path);
  ids.push_back(tokenizer->end_of_text().value());
  tokenizer->encode(text, ids, path);
  const TokenCache cache(Documents(path), *tokenizer, (folder / "cache").string());
  ASSERT_EQ(cache.size(), int64_t(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(cache[int64_t(i)], ids[i]) << i;
}

// A separator belongs to the document before it; an empty document has its separator alone.
TEST_F(TokenCacheTest, documents_have_their_ids) {
  std::vector<std::string> texts;
  for (unsigned i = 0; i < 200; ++i) texts.push_back(i % 50 == 7 ? "" : text_of(i == 100 ? 300'000 : 1 + i % 300, i));
  std::string lines, all;
  for (const std::string& text : texts) lines += nlohmann::json{{"text", text}}.dump() + "\n", all += text;
  const std::string path = write("in.jsonl", lines);
  for (const auto& vocabulary : vocabularies(all)) {
    const TokenCache cache(Documents(path), *vocabulary, (folder / "cache").string());
    ASSERT_EQ(cache.documents(), int64_t(texts.size()));
    EXPECT_EQ(cache.document_begin(0), 0);
    EXPECT_EQ(cache.document_begin(cache.documents()), cache.size());
    for (int64_t d = 0; d < cache.documents(); ++d) {
      std::vector<int32_t> expected, ids;
      vocabulary->append_document(texts[size_t(d)], /*first=*/true, expected, path);
      if (d + 1 < cache.documents()) expected.push_back(vocabulary->end_of_text().value());
      for (int64_t i = cache.document_begin(d); i < cache.document_begin(d + 1); ++i) ids.push_back(cache[i]);
      ASSERT_EQ(ids, expected) << vocabulary->kind() << " " << d;
    }
  }
}

TEST_F(TokenCacheTest, error_in_a_long_text_has_its_position) {
  const std::string text = text_of(300'000, 3);
  const auto error = [&](const std::string& content, const Vocabulary& vocabulary) {
    const std::string path = write("far.txt", content);
    return message_of([&] { TokenCache(Documents(path), vocabulary, (folder / "cache").string()); });
  };
  // "far.txt from byte N: ... at byte K": the position is N + K.
  const auto place = [](const std::string& message) {
    const size_t from = message.find(" from byte "), at = message.rfind("at byte ");
    return from == message.npos || at == message.npos ? 0 : std::stoul(message.substr(from + 11)) + std::stoul(message.substr(at + 8));
  };
  const std::string broken = error(text + " \xe9 " + text, *byte_vocabulary());
  EXPECT_NE(broken.find("is not UTF-8"), std::string::npos) << broken;
  EXPECT_EQ(place(broken), text.size() + 1) << broken;
  const std::string unknown = error(text + " \u2603 " + text, *vocabularies(text)[1]);
  EXPECT_NE(unknown.find("the character '\u2603'"), std::string::npos) << unknown;
  EXPECT_EQ(place(unknown), text.size() + 1) << unknown;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "cache"))  // no partial file, no shard
    EXPECT_TRUE(entry.is_directory() || entry.path().filename() == "weft-preparing.json") << entry.path();
}

TEST_F(TokenCacheTest, removes_partial_files_of_a_killed_run) {
  const std::string path = write("a.txt", "some words"), cache = (folder / "cache").string();
  const fs::path in = TokenCache(Documents(path), *byte_vocabulary(), cache).path();
  fs::remove(in / "shard-00000.tokens");
  std::ofstream(in / "shard-00000.tokens.77.incomplete") << "half";
  AtomicFile living((in / "shard-00007.tokens").string());  // another running process
  TokenCache(Documents(path), *byte_vocabulary(), cache);
  int incomplete = 0;
  for (const auto& entry : fs::directory_iterator(in)) incomplete += entry.path().extension() == ".incomplete";
  EXPECT_EQ(incomplete, 1);
  living.write("whole");
  living.commit();
  EXPECT_EQ(contents(in / "shard-00007.tokens"), "whole");
}

}  // namespace
}  // namespace weft
