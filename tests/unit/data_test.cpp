#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "weft/base/error.h"
#include "weft/io/tokenizer/tokenizer.h"
#include "weft/data/dataset.h"
#include "weft/data/documents.h"
#include "weft/data/permutation.h"
#include "weft/data/sums.h"
#include "weft/data/token_cache.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class Data : public testing::Test {
 protected:
  Data() { fs::create_directories(folder); }
  ~Data() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::string cache() const { return (folder / "cache").string(); }
  const fs::path folder = fs::temp_directory_path() / ("weft_data_" + std::to_string(::getpid()));
};

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
#define EXPECT_ERROR(expression, part)                                                 \
  do {                                                                                 \
    const std::string message = message_of([&] { expression; });                       \
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks " << part; \
  } while (false)

TEST(permutation, visits_everything_once) {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4095, 65537}) {
    const Permutation order(n, 42, 3);
    std::vector<bool> seen(size_t(n), false);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = order[i];
      ASSERT_TRUE(0 <= at && at < n && !seen[size_t(at)]) << n << " " << i;
      seen[size_t(at)] = true;
    }
  }
}

TEST(permutation, depends_on_seed_and_epoch) {
  const auto take = [](uint64_t seed, uint64_t epoch) {
    const Permutation order(1000, seed, epoch);
    std::vector<int64_t> values;
    for (int64_t i = 0; i < 1000; ++i) values.push_back(order[i]);
    return values;
  };
  EXPECT_EQ(take(1, 0), take(1, 0));
  const auto same = [](const auto& a, const auto& b) {
    int equal = 0;
    for (size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
    return equal;
  };
  EXPECT_LT(same(take(1, 0), take(2, 0)), 10);
  EXPECT_LT(same(take(1, 0), take(1, 1)), 10);
}

TEST(permutation, neighbours_are_far_apart_on_average) {
  const Permutation order(10000, 5);
  double distance = 0;
  for (int64_t i = 0; i + 1 < 10000; ++i) distance += std::abs(double(order[i + 1] - order[i]));
  EXPECT_NEAR(distance / 9999, 10000.0 / 3, 100);  // expectation for independent draws, within four standard deviations
}

TEST(permutation, supports_huge_sizes) {
  const int64_t n = int64_t(1) << 60;
  const Permutation order(n, 1);
  EXPECT_GE(order[n - 1], 0);
  EXPECT_LT(order[n - 1], n);
}

TEST(vocabulary, characters_round_trip) {
  const std::string text = "naïve ☃ 𝄞\n";
  std::vector<char32_t> characters;
  for (size_t at = 0; at < text.size();) characters.push_back(next_character(text, at, "x"));
  const auto vocabulary = character_vocabulary(characters);
  EXPECT_EQ(vocabulary->size(), 9);
  std::vector<int32_t> ids;
  vocabulary->encode(text, ids, "x");
  EXPECT_EQ(ids.size(), 10u);
  EXPECT_EQ(vocabulary->decode(ids), text);
  EXPECT_ERROR(vocabulary->encode("z", ids, "here"), "here: the character 'z' at byte 0");
}

TEST(vocabulary, bytes_round_trip) {
  std::vector<int32_t> ids;
  byte_vocabulary()->encode("☃\n", ids, "x");
  EXPECT_EQ(ids, (std::vector<int32_t>{0xe2, 0x98, 0x83, '\n'}));
  EXPECT_EQ(byte_vocabulary()->decode(ids), "☃\n");
}

TEST(vocabulary, written_tokenizer_json_gives_the_same_ids) {
  const std::string text = "naïve ☃☄ 𝄞\n  é";
  std::vector<char32_t> characters;
  for (size_t at = 0; at < text.size();) characters.push_back(next_character(text, at, "x"));
  for (const auto& vocabulary :
       {byte_vocabulary(), character_vocabulary(characters), character_vocabulary(characters, /*end_of_text=*/true)}) {
    std::vector<int32_t> ids;
    vocabulary->encode(text, ids, "x");
    const Tokenizer tokenizer = Tokenizer::parse(vocabulary->tokenizer_json());
    EXPECT_EQ(tokenizer.encode(text), ids) << vocabulary->kind();
    EXPECT_EQ(tokenizer.decode(ids), text) << vocabulary->kind();
  }
  EXPECT_EQ(Tokenizer::parse(byte_vocabulary()->tokenizer_json()).id_of("<|endoftext|>"), 256);
}

TEST_F(Data, tokenizer_as_vocabulary) {
  const std::string path = write("tokenizer.json", character_vocabulary({U'a', U'b', U'\n'})->tokenizer_json());
  const auto vocabulary = tokenizer_vocabulary(folder.string());
  std::vector<int32_t> ids;
  vocabulary->encode("ba\n", ids, "x");
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 1, 0}));
  EXPECT_EQ(vocabulary->decode(ids), "ba\n");
  EXPECT_NE(vocabulary->hash(), character_vocabulary({U'a', U'b'})->hash());
}

// Documents are separated by the end token named in the files, and surrounded by the template's tokens.
TEST_F(Data, special_tokens_around_documents) {
  write("tokenizer.json", byte_vocabulary()->tokenizer_json());
  const auto two_documents = [&](const std::string& end_token = "") {
    std::vector<int32_t> ids;
    const auto vocabulary = tokenizer_vocabulary(folder.string(), end_token);
    vocabulary->append_document("a", true, ids, "first");
    vocabulary->append_document("b", false, ids, "second");
    return ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_ERROR(two_documents(), "second: is a second document");
  EXPECT_EQ(two_documents("none"), (Ids{'a', 'b'}));
  EXPECT_EQ(two_documents("<|endoftext|>"), (Ids{'a', 256, 'b'}));
  EXPECT_EQ(two_documents("\n"), (Ids{'a', '\n', 'b'}));
  EXPECT_ERROR(two_documents("xy"), "end_token is 'xy', which encodes to 2 tokens");
  write("config.json", R"({"eos_token_id": 33, "model_type": "another"})");
  EXPECT_EQ(two_documents(), (Ids{'a', 33, 'b'}));
  write("generation_config.json", R"({"eos_token_id": [34, 35, 900]})");
  EXPECT_EQ(two_documents(), (Ids{'a', 34, 'b'}));
  write("tokenizer_config.json", R"({"eos_token": {"content": "<|endoftext|>"}, "bos_token": "#", "add_bos_token": true})");
  EXPECT_EQ(two_documents(), (Ids{'#', 'a', 256, '#', 'b'}));
  EXPECT_EQ(tokenizer_vocabulary(folder.string())->special_ids().eos_ids, (std::vector<int64_t>{34, 35, 256}));
  write("tokenizer_config.json", R"({"eos_token": "<|endoftext|>", "add_eos_token": true})");
  EXPECT_EQ(two_documents(), (Ids{'a', 256, 'b', 256}));  // once between them, not twice
}

TEST(vocabulary, error_has_the_position_of_invalid_utf8) {
  for (const std::string bad :
       {"ab\x80", "ab\xc3", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf5\x80\x80\x80", "ab\xe2\x28\xa1", "ab\xf4\x90\x80\x80"}) {
    EXPECT_ERROR(for (size_t at = 0; at < bad.size();) next_character(bad, at, "file"), "file: is not UTF-8");
    EXPECT_ERROR(for (size_t at = 0; at < bad.size();) next_character(bad, at, "file"), "at byte 2");
  }
}

TEST_F(Data, documents_of_files_folders_and_lines) {
  write("in/b.txt", "second");
  write("in/a.jsonl", "{\"text\": \"one\"}\n\n{\"id\": 3, \"text\": \"t\\nwo\"}\n");
  write("in/sub/c.txt", "last");
  write("in/.hidden", "no");
  std::vector<std::string> found;
  Documents((folder / "in").string()).visit([&](std::string_view text, const std::string&) { found.emplace_back(text); });
  EXPECT_EQ(found, (std::vector<std::string>{"one", "t\nwo", "second", "last"}));
}

TEST_F(Data, errors_have_file_and_line) {
  const auto visit = [](const std::string& path) { Documents(path).visit([](std::string_view, const std::string&) {}); };
  EXPECT_ERROR(visit((folder / "none").string()), "none: there is no such file or folder");
  EXPECT_ERROR(visit(write("empty.txt", "")), "empty.txt: the file is empty");
  fs::create_directories(folder / "hollow");
  EXPECT_ERROR(visit((folder / "hollow").string()), "hollow: the folder has no files");
  EXPECT_ERROR(visit(write("a.jsonl", "{\"text\": \"x\"}\n{\"text\": \"x\"\n")), "a.jsonl:2: is not valid JSON");
  EXPECT_ERROR(visit(write("b.jsonl", "{\"text\": \"x\"}\n\n[1]\n")), "b.jsonl:3: is not a JSON object");
  EXPECT_ERROR(visit(write("c.jsonl", "{\"txt\": \"x\"}\n")), "c.jsonl:1: has no field \"text\"");
  EXPECT_ERROR(visit(write("d.jsonl", "{\"text\": 5}")), "d.jsonl:1: its field \"text\" is not a string");
  EXPECT_ERROR(visit(write("e.jsonl", "{\"text\": \"x\"}\n{\"text\": \"x\", \"score\": 1e999}\n")),
               "e.jsonl:2: is not valid JSON: number overflow parsing '1e999'");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(visit((folder / "pipe").string()), "pipe: is neither a file nor a folder");
}

TEST_F(Data, links_are_followed_without_cycles) {
  write("in/a.txt", "a");
  write("elsewhere/b.txt", "b");
  fs::create_directory_symlink(folder / "elsewhere", folder / "in/linked");
  fs::create_directory_symlink(folder / "in", folder / "elsewhere/back");
  fs::create_symlink(folder / "gone", folder / "in/broken");
  std::vector<std::string> found;
  Documents((folder / "in").string()).visit([&](std::string_view text, const std::string&) { found.emplace_back(text); });
  EXPECT_EQ(found, (std::vector<std::string>{"a", "b"}));
}

TEST_F(Data, damaged_token_cache_is_rebuilt) {
  const std::string path = write("x.jsonl", "{\"text\": \"hello\"}\n{\"text\": \"you\"}\n");
  const auto vocabulary = byte_vocabulary();
  int made = 0;
  const auto open = [&] {
    return std::make_unique<TokenCache>(Documents(path), *vocabulary, cache(),
                                        [&](const std::string& text) { made += text.starts_with("tokenising"); });
  };
  auto tokens = open();
  EXPECT_EQ(tokens->size(), 9);
  EXPECT_EQ((*tokens)[5], 256);
  EXPECT_EQ((*tokens)[8], 'u');
  open();
  EXPECT_EQ(made, 1);
  const std::string file = tokens->path() + "/shard-00000.tokens";
  tokens.reset();
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(140).put('x');
  EXPECT_EQ((*open())[3], 'l');
  EXPECT_EQ(made, 2);
  write("x.jsonl", "{\"text\": \"hullo\"}\n");
  EXPECT_EQ((*open())[1], 'u');
  EXPECT_EQ(made, 3);
}

TEST_F(Data, text_is_packed_split_and_shuffled) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += char('a' + i % 26);
  const std::string path = write("t.txt", text);
  const auto data =
      text_dataset({.path = path, .cache_folder = cache(), .tokens = 10, .validation_fraction = 0.1, .seed = 1}, byte_vocabulary());
  EXPECT_EQ(data->sequences_per_epoch(), 89);
  EXPECT_EQ(data->validation_sequences(), 10);
  std::multiset<std::string> first, second;
  for (int64_t i = 0; i < 89; ++i) {
    const TokenBatch batch = data->training_sequence(i);
    EXPECT_EQ(batch.counted(), 10);
    for (size_t k = 0; k + 1 < 10; ++k) EXPECT_EQ(batch.targets[k], batch.ids[k + 1]);
    EXPECT_EQ(batch.targets[9] - 'a', (batch.ids[9] - 'a' + 1) % 26);
    first.insert(data->vocabulary().decode(batch.ids));
    second.insert(data->vocabulary().decode(data->training_sequence(89 + i).ids));
  }
  EXPECT_EQ(first, second);                                                    // every epoch has everything once,
  EXPECT_NE(data->training_sequence(0).ids, data->training_sequence(89).ids);  // in another order
  EXPECT_EQ(data->vocabulary().decode(data->validation_sequence(0).ids), text.substr(890, 10));
}

TEST_F(Data, text_shorter_than_a_sequence_is_an_error) {
  const std::string path = write("short.txt", "0123456789");
  EXPECT_ERROR(text_dataset({.path = path, .cache_folder = cache(), .tokens = 10}, byte_vocabulary()),
               "short.txt: has 10 tokens, less than one sequence of 10");
  EXPECT_EQ(text_dataset({.path = path, .cache_folder = cache(), .tokens = 9}, byte_vocabulary())->sequences_per_epoch(), 1);
}

// Each document with the end token after it, and nothing of its neighbours.
TEST_F(Data, documents_stay_apart_in_packed_text) {
  const std::string path = write("three.jsonl", "{\"text\": \"abcdefgh\"}\n{\"text\": \"xy\"}\n{\"text\": \"\"}\n{\"text\": \"123\"}\n");
  const std::shared_ptr<const Vocabulary> vocabulary = byte_vocabulary();
  const auto data = text_dataset(
      {.path = path, .cache_folder = cache(), .tokens = 6, .packing = Packing::documents, .validation_fraction = 0}, vocabulary);
  std::multiset<std::string> found;
  for (int64_t i = 0; i < data->sequences_per_epoch(); ++i) {
    const TokenBatch row = data->training_sequence(i);
    for (size_t d = 0; d < row.documents.size(); ++d) {
      const int64_t begin = row.documents[d], end = d + 1 < row.documents.size() ? row.documents[d + 1] : row.tokens;
      if (row.targets[size_t(begin)] == kIgnored) continue;  // padding
      std::string text;
      for (int64_t i = begin; i < end; ++i) text += char(row.ids[size_t(i)]);
      for (int64_t i = begin; i + 1 < end; ++i) EXPECT_EQ(row.targets[size_t(i)], row.ids[size_t(i + 1)]);
      const int32_t last = row.targets[size_t(end - 1)];
      found.insert(text + "->" + (last < 256 ? std::string(1, char(last)) : std::string("end")));
    }
  }
  EXPECT_EQ(found, (std::multiset<std::string>{"abcdef->g", "gh->end", "xy->end", "12->3"}));
  EXPECT_EQ(data->sequences_per_epoch(), 2);
  EXPECT_DOUBLE_EQ(data->packing().padding, 0);
  const auto alone =
      text_dataset({.path = path, .cache_folder = cache(), .tokens = 6, .packing = Packing::none, .validation_fraction = 0}, vocabulary);
  EXPECT_EQ(alone->sequences_per_epoch(), 4);
  EXPECT_DOUBLE_EQ(alone->packing().padding, 0.5);
  EXPECT_TRUE(alone->training_sequence(0).documents.empty());
  EXPECT_ERROR(text_dataset({.path = write("one.txt", "a"), .cache_folder = cache(), .tokens = 6, .packing = Packing::none}, vocabulary),
               "no document of two tokens");
}

TEST_F(Data, unwritable_cache_is_an_error) {
  const std::string path = write("y.txt", "some text");
  EXPECT_ERROR(text_dataset({.path = path, .cache_folder = "/proc/nowhere", .tokens = 4}, byte_vocabulary()), "--cache");
}

TEST(sums, holds_out_a_fifth_in_both_orders) {
  const SumsDataset data({.digits = 2, .rows = 27, .seed = 3});
  EXPECT_NEAR(double(data.held_out().size()), 0.2 * 8100, 12);
  std::set<std::string> held, seen;
  for (auto pair : data.held_out()) {
    EXPECT_TRUE(data.is_held_out({pair.b, pair.a}));
    held.insert(data.question(pair));
  }
  EXPECT_EQ(held.size(), data.held_out().size());
  for (int64_t i = 0; i <= data.sequences_per_epoch(); ++i) {
    const TokenBatch batch = data.training_sequence(i);
    for (int64_t row = 0; row < batch.rows; ++row)
      seen.insert(data.vocabulary().decode(std::span(batch.ids).subspan(size_t(row * batch.tokens), 6)));
  }
  for (const std::string& question : seen) EXPECT_FALSE(held.contains(question)) << question;
  EXPECT_EQ(seen.size() + held.size(), 8100u);
}

TEST(sums, only_the_answer_has_targets) {
  for (bool reversed : {false, true}) {
    const SumsDataset data({.digits = 2, .reversed = reversed, .rows = 4});
    const TokenBatch batch = data.training_sequence(7);
    EXPECT_EQ(batch.tokens, 9);
    EXPECT_EQ(batch.counted(), 4 * 4);
    for (size_t row = 0; row < 4; ++row) {
      const std::string text = data.vocabulary().decode(std::span(batch.ids).subspan(row * 9, 9));
      std::string answer = text.substr(6, 3);
      if (reversed) std::reverse(answer.begin(), answer.end());
      EXPECT_EQ(std::stoi(text.substr(0, 2)) + std::stoi(text.substr(3, 2)), std::stoi(answer)) << text;
      for (size_t i = 0; i < 9; ++i)
        EXPECT_EQ(batch.targets[row * 9 + i], i < 5 ? kIgnored : i < 8 ? batch.ids[row * 9 + i + 1] : 0);  // 0 is the newline
    }
  }
  EXPECT_THROW(SumsDataset({.digits = 1}), Error);
}

TEST(sums, exact_match_scores_all_held_out_sums) {
  const SumsDataset data({.digits = 2});
  size_t asked = 0;
  // Answers right unless the first operand is below 55.
  const GreedyDecoder decode = [&](std::span<const int32_t> prompts, int64_t rows, int64_t tokens, int64_t count) {
    std::vector<int32_t> out;
    for (int64_t row = 0; row < rows; ++row, ++asked) {
      const std::string question = data.vocabulary().decode(prompts.subspan(size_t(row * tokens), size_t(tokens)));
      const int64_t a = std::stoi(question), b = std::stoi(question.substr(3));
      data.vocabulary().encode(data.answer({a, a < 55 ? b + 1 : b}), out, "test");
      EXPECT_EQ(int64_t(out.size()), (row + 1) * count);
    }
    return out;
  };
  const auto& all = data.held_out();
  const double expected = double(std::count_if(all.begin(), all.end(), [](auto p) { return p.a >= 55; })) / double(all.size());
  EXPECT_DOUBLE_EQ(exact_match(data, decode, 100), expected);
  EXPECT_EQ(asked, all.size());
}

}  // namespace
}  // namespace weft
