// Training of tokenizers against `tokenizers`' BpeTrainer on small corpora (scripts/golden/tokenizer_training.py makes the file), limits
// and errors.
#include "weft/data/tokenizer_training/train_tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/unit/compressed.h"
#include "tests/unit/observed.h"
#include "weft/base/progress.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Texts = std::vector<std::string>;

const json& golden() {
  static const json read = json::parse(contents(WEFT_GOLDEN_TOKENIZER_TRAINING "/cases.json"));
  return read;
}

class TokenizerTrainingTest : public testing::Test {
 protected:
  TokenizerTrainingTest() { fs::create_directories(folder); }
  ~TokenizerTrainingTest() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::string write(const Texts& documents) const {
    std::string lines;
    for (const std::string& text : documents) lines += json{{"text", text}}.dump() + "\n";
    return write("corpus.jsonl", lines);
  }
  TrainedTokenizer train(const Texts& documents, const TokenizerTraining& options) const {
    return train_tokenizer(Documents(write(documents)), options);
  }
  std::string error(const TokenizerTraining& options) const {
    return message_of([&] { train({"a text"}, options); });
  }
  const fs::path folder = fs::temp_directory_path() / ("weft_tokenizer_training_" + std::to_string(::getpid()));
};

#define EXPECT_HAS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message) << "\nlacks " << (part)

Texts merges_of(const TrainedTokenizer& trained) {
  Texts merges;
  const json read = json::parse(trained.tokenizer_json);
  for (const json& merge : read["model"]["merges"]) merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return merges;
}

Texts documents_of(const json& golden_case) {
  const Texts documents = golden_case["documents"];
  if (!golden_case.contains("repeat")) return documents;
  std::string once, all;
  for (const std::string& text : documents) once += text;
  for (int i = 0; i < golden_case["repeat"].get<int>(); ++i) all += once;
  return {all};
}

TEST_F(TokenizerTrainingTest, equals_tokenizers_on_any_number_of_threads) {
  for (const json& expected : golden()["cases"]) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    TokenizerTraining options{.vocabulary = expected["vocab"],
                              .pattern = word_pattern(expected["pattern"].get<std::string>()),
                              .special = expected["special"],
                              .min_frequency = expected["min_frequency"]};
    const Documents documents(write(documents_of(expected)));
    TrainedTokenizer one;
    for (const int threads : {1, 2, 7}) {
      options.threads = threads;
      const TrainedTokenizer trained = train_tokenizer(documents, options);
      if (threads == 1) one = trained;
      EXPECT_TRUE(trained.tokenizer_json == one.tokenizer_json) << threads << " threads";
    }
    EXPECT_EQ(merges_of(one), expected["merges"].get<Texts>());
    EXPECT_EQ(one.vocabulary, expected["vocabulary"].get<int64_t>());
    EXPECT_EQ(one.merges, int64_t(expected["merges"].size()));
    EXPECT_EQ(one.exhausted, one.vocabulary < options.vocabulary);
    const Tokenizer tokenizer = Tokenizer::parse(one.tokenizer_json);
    for (const auto& [text, ids] : expected["texts"].items()) EXPECT_EQ(tokenizer.encode(text), ids.get<std::vector<int32_t>>()) << text;
  }
}

TEST_F(TokenizerTrainingTest, ids_start_with_special_tokens_and_bytes) {
  const TrainedTokenizer trained = train({"a"}, {.vocabulary = 257});
  const Tokenizer tokenizer = Tokenizer::parse(trained.tokenizer_json);
  ASSERT_EQ(tokenizer.vocab_size(), 257);
  for (int32_t id = 0; id < 257; ++id) EXPECT_EQ(tokenizer.token_of(id), golden()["alphabet"][size_t(id)].get<std::string>());
  EXPECT_TRUE(tokenizer.is_special(0));
  EXPECT_FALSE(trained.exhausted);
  EXPECT_EQ(json::parse(trained.tokenizer_config_json)["eos_token"], "<|endoftext|>");

  const TrainedTokenizer other = train({"a"}, {.vocabulary = 258, .end_token = "", .special = {"<|user|>", "<|bot|>"}});
  const Tokenizer chat = Tokenizer::parse(other.tokenizer_json);
  EXPECT_EQ(chat.encode("<|user|>!<|bot|>"), (std::vector<int32_t>{0, 2, 1}));
  EXPECT_FALSE(json::parse(other.tokenizer_config_json).contains("eos_token"));
}

TEST_F(TokenizerTrainingTest, counts_words) {
  const TrainedTokenizer trained = train({"a bc bc", "", "a bc\n"}, {.vocabulary = 300});
  EXPECT_EQ(trained.documents, 3);
  EXPECT_EQ(trained.bytes, 12);
  EXPECT_EQ(trained.words, 6);  // "a" " bc" " bc" "a" " bc" "\n"
  EXPECT_EQ(trained.distinct_words, 3);
  EXPECT_EQ(merges_of(trained), (Texts{"b c", "Ġ bc"}));
  EXPECT_TRUE(trained.exhausted);
  EXPECT_EQ(trained.dropped_words, 0);
}

// Of more than four words two are left: all that occur at most twice are dropped.
TEST_F(TokenizerTrainingTest, drops_rare_words_at_the_limit) {
  const Texts documents = {"pqpq pqpq pqpq pqpq xyxy xyxy xyxy cdcd cdcd ef gh"};
  const TrainedTokenizer all = train(documents, {.vocabulary = 400, .most_words = 6});
  EXPECT_EQ(all.distinct_words, 6);  // the first has no space
  EXPECT_EQ(all.dropped_words, 0);
  const TrainedTokenizer few = train(documents, {.vocabulary = 400, .most_words = 4});
  EXPECT_EQ(few.words, 11);
  EXPECT_EQ(few.distinct_words, 2);
  EXPECT_EQ(few.dropped_words, 4);
  EXPECT_EQ(few.dropped_occurrences, 5);
  EXPECT_EQ(few.dropped_count, 2);
  EXPECT_EQ(merges_of(few), (Texts{"p q", "x y", "Ġ pq", "Ġ xy", "Ġpq pq", "Ġxy xy"}));
}

// The limit holds while text is read: three batches of 8 MiB with words of their own.
TEST_F(TokenizerTrainingTest, drops_between_batches_alike_on_any_number_of_threads) {
  std::string text;
  for (int i = 0; text.size() < (size_t(20) << 20); ++i) text += i % 3 ? " frequent" : " w" + std::to_string(i % 400'000 * 7) + "q";
  const std::string path = write("corpus.txt", text);
  TrainedTokenizer one;
  for (const int threads : {1, 2, 7}) {
    const TrainedTokenizer trained = train_tokenizer(Documents(path), {.vocabulary = 500, .most_words = 2000, .threads = threads});
    if (threads == 1) one = trained;
    EXPECT_TRUE(trained.tokenizer_json == one.tokenizer_json);
    EXPECT_EQ(trained.dropped_words, one.dropped_words);
  }
  EXPECT_GT(one.dropped_words, 2000);
  EXPECT_LE(one.distinct_words, 2000);
  EXPECT_TRUE(Tokenizer::parse(one.tokenizer_json).id_of("Ġfrequent"));
}

// A text file is read in parts of 64 KiB, compressed or not; its words are those of one document, and progress counts bytes of the file.
TEST_F(TokenizerTrainingTest, text_files_are_read_in_parts) {
  struct Seen : ProgressListener {
    void progress(const Work& work) override {
      if (work.what != "counting words") return;
      EXPECT_LE(last, work.done);
      EXPECT_LE(work.done, work.total);
      last = work.done;
      total = work.total;
    }
    int64_t last = 0, total = 0;
  };
  std::string text;
  for (int i = 0; text.size() < (size_t(9) << 20); ++i) text += (i % 7 ? " word" : "\nline") + std::to_string(i * 7919 % 5003);
  const TokenizerTraining options{.vocabulary = 700};
  const TrainedTokenizer whole = train({text}, options);
  EXPECT_EQ(whole.documents, 1);
  for (const auto& [name, bytes] : {std::pair{"a.txt", text}, {"a.txt.gz", gzipped(text)}, {"a.txt.zst", zstandard(text)}}) {
    SCOPED_TRACE(name);
    Seen seen;
    const Listening listening(seen);
    const TrainedTokenizer parts = train_tokenizer(Documents(write(name, bytes)), options);
    EXPECT_TRUE(parts.tokenizer_json == whole.tokenizer_json);
    EXPECT_EQ(parts.documents, 1);
    EXPECT_EQ(parts.bytes, whole.bytes);
    EXPECT_EQ(parts.words, whole.words);
    EXPECT_EQ(seen.total, int64_t(bytes.size()));
    EXPECT_EQ(seen.last, seen.total);
  }
}

// A word longer than 64 KiB is split between characters; a text without places to cut at is counted whole.
TEST_F(TokenizerTrainingTest, long_words) {
  std::string word;
  while (word.size() < 200'000) word += "\xe6\xbc\xa2";  // one character of three bytes
  const TrainedTokenizer split = train({word}, {.vocabulary = 260});
  EXPECT_EQ(split.words, 4);
  EXPECT_EQ(split.distinct_words, 2);
  EXPECT_EQ(split.bytes, int64_t(word.size()));
  const std::string uncut(size_t(9) << 20, '\t');
  EXPECT_EQ(train_tokenizer(Documents(write("tabs.txt", uncut)), {.vocabulary = 260}).words, 144);
}

TEST_F(TokenizerTrainingTest, refuses_wrong_options) {
  EXPECT_HAS(error({.vocabulary = 256}), "the vocabulary is to have 256 tokens, expected 257 (256 bytes and 1 special token) to 10000000");
  EXPECT_HAS(error({.vocabulary = 258, .special = {"<a>", "<b>"}}), "expected 259 (256 bytes and 3 special tokens)");
  EXPECT_HAS(error({.vocabulary = 10'000'001}), "10000001");
  EXPECT_HAS(error({.special = {"<a>", "<a>"}}), "the special token '<a>' is given twice");
  EXPECT_HAS(error({.special = {"<|endoftext|>"}}), "the special token '<|endoftext|>' is given twice");
  EXPECT_HAS(error({.special = {""}}), "a special token is empty");
  EXPECT_HAS(error({.special = {"\xc3"}}), "a special token is not UTF-8");
  EXPECT_HAS(error({.special = {"x"}}), "the special token 'x' is the letter of byte 120");
  EXPECT_HAS(error({.special = {"Ġ"}}), "the special token 'Ġ' is the letter of byte 32");
  EXPECT_HAS(error({.min_frequency = -1}), "the least frequency is -1");
  EXPECT_HAS(error({.most_words = 0}), "the limit of distinct words is 0");
  EXPECT_HAS(error({.threads = -1}), "-1 threads");
  EXPECT_HAS(message_of([] { word_pattern("gpt4"); }), "the pattern is 'gpt4', expected gpt2 or llama3");
}

TEST_F(TokenizerTrainingTest, refuses_wrong_data) {
  EXPECT_HAS(message_of([&] { train({"", ""}, {}); }), "there is no text to train on: all 2 documents are empty");
  std::string text;
  while (text.size() < 300'000) text += "some words ";
  const size_t wrong = text.size();
  EXPECT_HAS(message_of([&] { train_tokenizer(Documents(write("wrong.txt", text + "\xff and more")), {}); }),
             "wrong.txt: is not UTF-8: invalid bytes at byte " + std::to_string(wrong));
  EXPECT_HAS(message_of([&] { train_tokenizer(Documents(write("cut.txt", text + "\xe6\xbc")), {}); }),
             "cut.txt: is not UTF-8: a truncated character at byte " + std::to_string(wrong));
}

TEST_F(TokenizerTrainingTest, writes_a_new_folder_only) {
  const TrainedTokenizer trained = train({"a text"}, {.vocabulary = 260});
  const std::string out = (folder / "some/where").string();
  write_tokenizer_folder(trained, out + "/");
  EXPECT_EQ(contents(out + "/tokenizer.json"), trained.tokenizer_json);
  EXPECT_EQ(contents(out + "/tokenizer_config.json"), trained.tokenizer_config_json);
  EXPECT_HAS(message_of([&] { write_tokenizer_folder(trained, out); }), out + ": exists already");
  EXPECT_HAS(message_of([&] { check_new_folder(out + "/tokenizer.json/x"); }), "is not a folder");
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder / "some")) ++entries;
  EXPECT_EQ(entries, 1);
}

TEST_F(TokenizerTrainingTest, stops_on_request) {
  struct Stopping : ProgressListener {
    void progress(const Work& work) override {
      seen += std::string(work.what) + ";";
      if (work.what == "merging" && work.done > 0) throw Stopped();
    }
    std::string seen;
  } stopping;
  const Listening listening(stopping);
  std::string text;
  for (int i = 0; i < 3000; ++i) text.append(1, ' ').append(std::to_string(i * 7919));
  EXPECT_THROW(train({text}, {.vocabulary = 1000}), Stopped);
  EXPECT_HAS(stopping.seen, "counting words;");
}

}  // namespace
}  // namespace weft
