// Chat data as training sequences: encoded lines, their cache, conversations that are cut, rows with and without packing.
#include "weft/data/chat_dataset.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/unit/observed.h"
#include "weft/data/chat_template.h"
#include "weft/data/chat_vocabulary.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string line(const std::string& question, const std::string& answer) {
  return json{{"prompt", question}, {"completion", answer}}.dump() + "\n";
}

std::shared_ptr<const ChatEncoder> byte_encoder(uint64_t template_hash = 1) {
  const ChatTemplate& chatml = chat_template("chatml");
  return std::make_shared<const ChatEncoder>(ChatFormat::parse(chatml.text, {}, "chatml"), chat_vocabulary(byte_vocabulary(), chatml),
                                             template_hash);
}

class ChatData : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::string cache_folder() const { return (folder / "cache").string(); }
  std::unique_ptr<ChatDataset> dataset(const std::string& path, int64_t tokens, Packing packing, double validation = 0) {
    notices.clear();
    return chat_dataset(
        {.path = path, .cache_folder = cache_folder(), .tokens = tokens, .validation_fraction = validation, .packing = packing}, encoder,
        [this](const std::string& text) { notices.push_back(text); });
  }
  // The answers that count, decoded.
  std::string counted(const TokenBatch& batch) const {
    std::vector<int32_t> ids;
    for (int32_t id : batch.targets)
      if (id != kIgnored) ids.push_back(id);
    return encoder->vocabulary().decode(ids);
  }

  const fs::path folder = fs::temp_directory_path() / ("weft_chat_data_" + std::to_string(::getpid()));
  const std::shared_ptr<const ChatEncoder> encoder = byte_encoder();
  std::vector<std::string> notices;
};

TEST_F(ChatData, encoded_line) {
  const EncodedChat chat = encoder->encode(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"},
    {"role": "user", "content": "R"}, {"role": "assistant", "content": "BC"}, {"role": "user", "content": "thanks"}]})",
                                           "x");
  std::string text, marks;
  for (size_t i = 0; i < chat.ids.size(); ++i) {
    const std::string token = encoder->vocabulary().decode(std::span(&chat.ids[i], 1));
    text += token;
    marks += chat.counts[i] ? token : "";
  }
  // Tokens after the last answer are left out: none of them counts, and none before them sees them.
  EXPECT_EQ(text,
            "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\nBC<|"
            "im_end|>");
  EXPECT_EQ(marks, "A<|im_end|>BC<|im_end|>");
  EXPECT_EQ(encoder->vocabulary().decode(encoder->prompt("Q")), "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ChatData, template_that_writes_no_answer) {
  const ChatEncoder silent(ChatFormat::parse("{{ messages[0].content }}{% generation %}{% endgeneration %}"),
                           chat_vocabulary(byte_vocabulary(), chat_template("chatml")), 1);
  EXPECT_NE(message_of([&] { silent.encode(line("a", "b"), "chat.jsonl:3"); }).find("chat.jsonl:3: the chat template writes nothing"),
            std::string::npos);
}

// chatml knows no tool calls.
TEST_F(ChatData, template_that_leaves_out_tool_calls) {
  const auto error = [&](const std::string& more) {
    return message_of([&] {
      encoder->encode(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]})" +
              more + "]}",
          "chat.jsonl:3");
    });
  };
  const std::string expected = "chat.jsonl:3: the chat template writes an answer as special tokens alone";
  EXPECT_NE(error("").find(expected), std::string::npos) << error("");
  EXPECT_NE(error(R"(, {"role": "tool", "content": "1"}, {"role": "assistant", "content": "b"})").find(expected), std::string::npos);
}

TEST_F(ChatData, tokenizer_without_the_end_of_turn) {
  const std::string tokenizer = WEFT_GOLDEN "/chat/tokenizers/gpt2.json";
  const std::string error =
      message_of([&] { ChatEncoder(ChatFormat::parse(chat_template("chatml").text), tokenizer_vocabulary(tokenizer, "none"), 1); });
  EXPECT_NE(error.find("<|im_end|>, which is not a special token of the tokenizer: it is split into"), error.npos) << error;
  // A template without any such token is another matter.
  EXPECT_NO_THROW(
      ChatEncoder(ChatFormat::parse("{% for m in messages %}{{ m.content }}\n{% endfor %}"), tokenizer_vocabulary(tokenizer, "none"), 1));
}

TEST_F(ChatData, cache_is_found_again) {
  const std::string path = write("a.jsonl", line("a", "b") + line("c", "d"));
  dataset(path, 64, Packing::none);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("tokenising 1 file into"), std::string::npos);
  const std::string first = dataset(path, 64, Packing::none)->identity();
  EXPECT_TRUE(notices.empty());
  const ChatCache cache(Documents(path), *encoder, cache_folder());
  EXPECT_EQ(cache.identity(), first);

  const std::string bytes = contents(cache.path());
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  for (const std::string& broken : {damaged, bytes.substr(0, bytes.size() - 8), bytes.substr(0, 10), std::string()}) {
    std::ofstream(cache.path(), std::ios::binary) << broken;
    dataset(path, 64, Packing::none);
    EXPECT_EQ(notices.size(), 1u);
    EXPECT_EQ(contents(cache.path()), bytes);
  }
  EXPECT_NE(ChatCache(Documents(path), *byte_encoder(2), cache_folder()).identity(), first);  // another template
  EXPECT_NE(ChatCache(Documents(write("b.jsonl", line("a", "c"))), *encoder, cache_folder()).identity(), first);
}

// A start compares sizes, times and fingerprints: it reads all of a file that was touched, and nothing of the middle of others.
TEST_F(ChatData, start_does_not_read_the_data) {
  std::string lines;
  while (lines.size() < (size_t(3) << 20)) lines += line("a question", std::string(2000, 'x'));
  const std::string path = write("a.jsonl", lines);
  const std::string first = dataset(path, 64, Packing::none)->identity();
  ASSERT_EQ(notices.size(), 2u);  // and that conversations are cut
  const auto tokenised = [&] { return notices[0].find("tokenising") != std::string::npos; };
  const auto time = fs::last_write_time(path);
  fs::last_write_time(path, time + std::chrono::seconds(5));
  EXPECT_EQ(dataset(path, 64, Packing::none)->identity(), first);
  EXPECT_FALSE(tokenised()) << "a touched file";
  EXPECT_EQ(dataset(write("copy.jsonl", lines), 64, Packing::none)->identity(), first);
  EXPECT_FALSE(tokenised()) << "a copy";

  const size_t unread = lines.find("xxx", lines.size() / 3);
  lines[unread] = 'y';
  fs::last_write_time(write("copy.jsonl", lines), time);  // the copy's name and time were noted by no cache
  EXPECT_NE(dataset((folder / "copy.jsonl").string(), 64, Packing::none)->identity(), first);
  EXPECT_TRUE(tokenised()) << "another time, other contents";
  const auto noted = fs::last_write_time(folder / "copy.jsonl");
  lines[unread] = 'z';
  fs::last_write_time(write("copy.jsonl", lines), noted);
  dataset((folder / "copy.jsonl").string(), 64, Packing::none);
  EXPECT_FALSE(tokenised()) << "nothing was read that could show the change";
}

TEST_F(ChatData, threads_do_not_matter) {
  std::string lines;
  for (int i = 0; i < 300; ++i)
    lines += line("question " + std::to_string(i), std::string(size_t(1 + i * 7 % 50), 'x') + std::to_string(i));
  const std::string path = write("a.jsonl", lines);
  std::string bytes;
  for (const int threads : {1, 2, 5}) {
    const ChatCache cache(Documents(path), *encoder, (folder / std::to_string(threads)).string(), {}, threads);
    EXPECT_EQ(cache.size(), 300);
    if (bytes.empty()) bytes = contents(cache.path());
    EXPECT_EQ(contents(cache.path()), bytes) << threads;
  }
}

// The first broken line is named, whichever thread finds which one; nothing is left behind.
TEST_F(ChatData, broken_lines) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += line("q", "a");
  const auto error = [&](const std::string& bad) {
    const std::string path = write("a.jsonl", lines + bad + "\n" + lines + R"({"messages": 5})" + "\n");
    return message_of([&] { ChatCache(Documents(path), *encoder, cache_folder(), {}, 4); });
  };
  EXPECT_NE(error("{\"messages\": [").find("a.jsonl:101: "), std::string::npos) << error("{\"messages\": [");
  EXPECT_NE(error(R"({"messages": [{"role": "bard", "content": "x"}]})").find("a.jsonl:101: message 0 has the role 'bard'"),
            std::string::npos);
  EXPECT_NE(error(R"({"text": "x"})").find("a.jsonl:101: has neither"), std::string::npos);
  EXPECT_NE(error("\"\xff\"").find("a.jsonl:101: "), std::string::npos);
  EXPECT_TRUE(fs::is_empty(cache_folder()));
}

TEST_F(ChatData, long_conversations_are_cut_and_counted) {
  const std::string q(20, 'q'), two = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "aa"},)"
                                      R"({"role": "user", "content": ")" +
                                      q + R"("}, {"role": "assistant", "content": "bbbbbbbb"}]})";
  const std::string path = write("a.jsonl", line("q", "a") + two + "\n" + line(q + q, "late"));
  const ChatCache all(Documents(path), *encoder, cache_folder());
  const int64_t lengths[] = {all.length(0), all.length(1), all.length(2)};
  const int64_t before = lengths[0] - 2;  // tokens before the answer "a" and its end
  const auto cache = std::make_shared<const ChatCache>(Documents(path), *encoder, cache_folder());
  const auto documents = [&](int64_t most) { return ChatDocuments(cache, 0, 3, most); };

  EXPECT_EQ(documents(1000).shortened() + documents(1000).left_out(), 0);
  EXPECT_EQ(documents(1000).length(1), lengths[1] - 1);
  EXPECT_EQ(documents(lengths[1] - 1).shortened(), 0);  // the last id is a target alone
  EXPECT_EQ(documents(lengths[1] - 2).shortened(), 1);
  EXPECT_EQ(documents(lengths[1] - 2).length(1), lengths[1] - 2);
  // Between two answers there is nothing to learn: the first one is the end.
  EXPECT_EQ(documents(before + 10).length(1), before + 2);
  EXPECT_EQ(documents(before + 10).size(), 2);
  EXPECT_EQ(documents(before + 10).left_out(), 1);
  EXPECT_EQ(documents(before + 10).shortened(), 1);
  EXPECT_EQ(documents(before).counted(), 2);  // the first letter of both
  EXPECT_EQ(documents(before - 1).size(), 0);
  EXPECT_EQ(documents(before - 1).left_out(), 3);

  const auto data = dataset(path, before + 10, Packing::none);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find(": of 3 conversations 1 is cut to the first"), std::string::npos) << notices[0];
  EXPECT_NE(notices[0].find("and 1 is left out"), std::string::npos) << notices[0];
  EXPECT_NE(message_of([&] { dataset(path, 5, Packing::none); }).find("none of 3 has an answer in its first 5 tokens"), std::string::npos);
}

TEST_F(ChatData, rows) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += line("q", std::string(size_t(1 + i % 13), 'a') + std::to_string(i) + ";");
  const std::string path = write("a.jsonl", lines);
  for (const Packing packing : {Packing::none, Packing::documents}) {
    const auto data = dataset(path, 128, packing, 0.1);
    std::map<std::string, int> seen;
    const auto see = [&](const TokenBatch& row) {
      const std::string text = counted(row);
      for (size_t at = 0, end; (end = text.find(";<|im_end|>", at)) != text.npos; at = end + 11) ++seen[text.substr(at, end - at)];
      EXPECT_EQ(row.tokens, int64_t(row.ids.size()));
      EXPECT_EQ(row.documents.empty(), packing == Packing::none);
    };
    for (int64_t i = 0; i < data->validation_sequences(); ++i) see(data->validation_sequence(i));
    EXPECT_EQ(seen.size(), 4u);
    EXPECT_TRUE(seen.contains("a39"));  // the last conversations are held out
    for (int64_t i = 0; i < data->sequences_per_epoch(); ++i) see(data->training_sequence(i));
    EXPECT_EQ(seen.size(), 40u);
    for (const auto& [answer, times] : seen) EXPECT_EQ(times, 1) << answer;
    if (packing == Packing::none) {
      EXPECT_EQ(data->sequences_per_epoch(), 36);
      EXPECT_LT(data->training_sequence(0).tokens, 128);  // the longest conversation
    } else {
      EXPECT_LT(data->sequences_per_epoch(), 20);
    }
    EXPECT_GT(data->counted_share(), 0.05);
    EXPECT_LT(data->counted_share(), 0.5);
    EXPECT_EQ(encoder->vocabulary().decode(data->sample_prompt()), "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n");
  }
}

// The parts of a mixture have rows of one length.
TEST_F(ChatData, full_rows) {
  const std::string path = write("a.jsonl", line("q", "a"));
  const auto data = chat_dataset({.path = path, .cache_folder = cache_folder(), .tokens = 77, .full_rows = true}, encoder);
  EXPECT_EQ(data->training_sequence(0).tokens, 77);
  EXPECT_EQ(data->training_sequence(0).ids.size(), 77u);
}

TEST_F(ChatData, id_without_an_embedding) {
  const std::string path = write("a.jsonl", line("q", "a"));
  const std::string error =
      message_of([&] { chat_dataset({.path = path, .cache_folder = cache_folder(), .vocabulary_limit = 258}, encoder); });
  EXPECT_NE(error.find("has the token '<|im_end|>' of id 258, the model takes ids below 258"), error.npos) << error;
}

}  // namespace
}  // namespace weft
