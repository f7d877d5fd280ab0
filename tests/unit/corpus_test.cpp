// Corpora: compressed files, lists with weights and globs, shards that are continued after a stop, data that changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tests/unit/compressed.h"
#include "tests/unit/observed.h"
#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/data/data_list.h"
#include "weft/data/dataset.h"
#include "weft/data/documents.h"
#include "weft/data/mixture.h"
#include "weft/data/prepare.h"
#include "weft/data/token_cache.h"
#include "weft/io/byte_stream.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class Corpus : public testing::Test {
 protected:
  Corpus() { fs::create_directories(folder); }
  ~Corpus() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::string at(const std::string& name) const { return (folder / name).string(); }
  static Texts texts(const std::string& list, const std::string& field = "text") {
    Texts found;
    Documents(list, {}, {}, field).visit([&](std::string_view text, const std::string&) { found.emplace_back(text); });
    return found;
  }
  static std::string error(const std::string& list, const std::string& field = "text") {
    return message_of([&] { texts(list, field); });
  }
  const fs::path folder = fs::temp_directory_path() / ("weft_corpus_" + std::to_string(::getpid()));
};

#define EXPECT_HAS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message) << "\nlacks " << (part)

std::string words(size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < bytes) text += join("w", random() % 5000, random() % 12 == 0 ? "\n" : " ");
  return text;
}

std::string lines_of(const Texts& all, const char* field = "text") {
  std::string lines;
  for (const std::string& text : all) lines += nlohmann::json{{field, text}, {"id", 7}}.dump() + "\n";
  return lines;
}

TEST_F(Corpus, compressed_files_are_read_as_the_plain_ones) {
  const std::string text = words(3'000'000, 1);
  const Texts all = {"one", "two\nlines", words(200'000, 2), ""};
  EXPECT_EQ(texts(write("a.txt.gz", gzipped(text))), Texts{text});
  EXPECT_EQ(texts(write("a.txt.zst", zstandard(text))), Texts{text});
  EXPECT_EQ(texts(write("a.jsonl.GZ", gzipped(lines_of(all)))), all);
  EXPECT_EQ(texts(write("a.jsonl.zst", zstandard(lines_of(all)))), all);
  EXPECT_EQ(texts(write("a.json.zst", zstandard(nlohmann::json(all).dump()))), all);
  EXPECT_EQ(texts(write("words.gz", gzipped("named, so text"))), Texts{"named, so text"});
  // Several members or frames in a row, as pigz and pzstd write them; padding after gzip.
  EXPECT_EQ(texts(write("b.txt.gz", gzipped(text) + gzipped("end") + std::string(700, '\0'))), Texts{text + "end"});
  EXPECT_EQ(texts(write("b.txt.zst", zstandard(text) + zstandard("end"))), Texts{text + "end"});
}

TEST_F(Corpus, damaged_compression_is_an_error) {
  const std::string text = words(300'000, 1), gz = gzipped(text), zst = zstandard(text);
  EXPECT_HAS(error(write("a.txt.gz", gz.substr(0, gz.size() / 2))), "a.txt.gz: is truncated: its gzip data ends after");
  EXPECT_HAS(error(write("b.txt.gz", gz.substr(0, gz.size() - 1))), "b.txt.gz: is truncated");
  EXPECT_HAS(error(write("a.txt.zst", zst.substr(0, zst.size() / 2))), "a.txt.zst: is truncated: its zstd data ends after");
  EXPECT_HAS(error(write("c.txt.gz", "plain words")), "c.txt.gz: is not valid gzip: incorrect header check");
  EXPECT_HAS(error(write("c.txt.zst", "plain words")), "c.txt.zst: is not valid zstd: ");
  EXPECT_HAS(error(write("d.txt.gz", gz + "rest")), "d.txt.gz: is not valid gzip");
  std::string wrong = gz;
  wrong[wrong.size() / 2] ^= 0x40;
  EXPECT_HAS(error(write("e.txt.gz", wrong)), "e.txt.gz: is not valid gzip: ");
}

TEST_F(Corpus, field_holds_the_text) {
  const Texts all = {"one", "two"};
  EXPECT_EQ(texts(write("a.jsonl", lines_of(all, "body")), "body"), all);
  EXPECT_HAS(error(at("a.jsonl")), "a.jsonl:1: has no field \"text\"; its fields are \"body\", \"id\" (--field NAME reads another)");
  EXPECT_HAS(error(at("a.jsonl"), "id"), "a.jsonl:1: its field \"id\" is not a string but number");
}

TEST_F(Corpus, line_of_unbounded_length_is_an_error) {
  const std::string path = write("a.jsonl", "{\"text\": \"x\"}\n");
  std::ofstream(path, std::ios::app | std::ios::binary) << std::string(size_t(66) << 20, 'a');
  EXPECT_HAS(error(path), "a.jsonl:2: has a line of more than 64 MiB");
}

TEST_F(Corpus, lists_globs_and_weights) {
  for (const char* name : {"in/b.txt", "in/a.txt", "in/c.md", "other/d.txt"}) write(name, name);
  EXPECT_EQ(texts(at("in/*.txt")), (Texts{"in/a.txt", "in/b.txt"}));
  EXPECT_EQ(texts(at("other") + "," + at("in/[bc].*")), (Texts{"other/d.txt", "in/b.txt", "in/c.md"}));
  EXPECT_HAS(error(at("in/*.jsonl")), "in/*.jsonl: no file matches this pattern");
  EXPECT_HAS(error(at("nowhere")), "nowhere: there is no such file or folder");
  EXPECT_EQ(texts(write("odd,name:1", "as it is")), Texts{"as it is"});
  const auto items = data_items(at("in") + ":0.7," + at("other/d.txt") + ":3");
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].path, at("in"));
  EXPECT_EQ(items[0].weight, 0.7);
  EXPECT_EQ(items[1].weight, 3);
  for (const char* weight : {"0", "-1", "1e999", "0.5x", "-nan"})
    EXPECT_HAS(message_of([&] { data_items(at("in") + ":" + weight); }), "expected a number above 0") << weight;
  EXPECT_HAS(message_of([&] { data_items("a:0.5,b"); }), "'b' has no weight, but another item");
  EXPECT_HAS(message_of([&] { data_items("a,,b"); }), "an item of the list 'a,,b' is empty");
  EXPECT_HAS(error(at("in") + ":0.5"), "has weights, which only weft train --data takes");
  EXPECT_EQ(data_name("x/corpus.v1.jsonl.gz"), "corpus.v1");
  EXPECT_EQ(data_name("x/*.jsonl.gz:1,y/b/:2"), "x-b");
}

TEST_F(Corpus, file_that_changes_while_it_is_read_is_an_error) {
  const std::string path = write("a.txt", words(3'000'000, 1));
  const auto while_read = [&](const auto& change) {
    write("a.txt", words(3'000'000, 1));
    return message_of([&] {
      ByteStream stream(path, Coding::none);
      std::vector<char> some(ByteStream::kBlock);
      stream.read(some);
      change();
      while (stream.read(some) > 0) {
      }
    });
  };
  EXPECT_HAS(while_read([&] { fs::resize_file(path, 2'000'000); }), "a.txt: shrank while it was read: it had 3000");
  EXPECT_HAS(while_read([&] { fs::resize_file(path, 1000); }), " bytes, and now has 1000;");  // less than was read
  EXPECT_HAS(while_read([&] { std::ofstream(path, std::ios::app) << "more"; }), "a.txt: grew while it was read: it had 3000");
  EXPECT_HAS(while_read([&] { fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5)); }),
             "a.txt: was changed while it was read");
  // Between the listing of files and the reading of one of them.
  const Documents documents(path);
  write("a.txt", "shorter");
  EXPECT_HAS(message_of([&] { documents.visit([](std::string_view, const std::string&) {}); }),
             "a.txt: changed while the data was read: it had 3000");
}

// Stops the work after some reports of progress.
struct StopAfter : ProgressListener {
  explicit StopAfter(int reports) : left(reports) {}
  void progress(const Work&) override {
    if (left-- == 0) throw Stopped();
  }
  int left;
};

class Shards : public Corpus {
 protected:
  // Text files, lines, a list, objects in a row, compressed and not, among them documents longer than a batch.
  std::string corpus() const {
    Texts all;
    for (unsigned i = 0; i < 300; ++i) all.push_back(i % 40 == 7 ? "" : words(i % 90 == 0 ? 300'000 : 20 + i % 500, i));
    write("in/a.jsonl", lines_of(all));
    write("in/b.txt", words(400'000, 5));
    write("in/c.jsonl.gz", gzipped(lines_of(all)));
    write("in/d.json", nlohmann::json(all).dump(1));
    write("in/e.json.zst", zstandard(lines_of(all)));
    write("in/f.txt.zst", zstandard("\xef\xbb\xbf" + words(200'000, 6)));
    return at("in");
  }
  static PrepareOptions small() { return {.threads = 2, .shard_tokens = 20'000, .batch_bytes = 30'000}; }
  std::map<std::string, std::string> files_of(const std::string& out) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder / out))
      if (entry.is_regular_file()) files[entry.path().filename().string()] = contents(entry.path());
    return files;
  }
};

TEST_F(Shards, stopped_preparation_ends_with_the_same_files) {
  const std::string data = corpus();
  const auto vocabulary = tokenizer_vocabulary(std::string(WEFT_GOLDEN_MODELS) + "/gpt2", "\n");
  const PrepareOutcome whole = prepare(Documents(data), *vocabulary, at("whole"), small());
  EXPECT_GT(whole.shards, 10);
  const auto expected = files_of("whole");
  int stops = 0;
  for (int reports = 3;; reports += 4) {
    StopAfter stop(reports);
    const Listening listening(stop);
    try {
      const PrepareOutcome outcome = prepare(Documents(data), *vocabulary, at("parts"), small());
      EXPECT_GT(outcome.kept, 0);
      break;
    } catch (const Stopped&) {
      ++stops;
      EXPECT_FALSE(fs::exists(folder / "parts/weft-prepared.json"));
    }
  }
  EXPECT_GT(stops, 5);
  EXPECT_EQ(files_of("parts"), expected);
  // The shards hold what one shard would.
  prepare(Documents(data), *vocabulary, at("one"), {});
  const TokenCache many = TokenCache::prepared(at("whole"), *vocabulary), one = TokenCache::prepared(at("one"), *vocabulary);
  ASSERT_EQ(many.size(), one.size());
  ASSERT_EQ(many.documents(), one.documents());
  EXPECT_EQ(many.identity(), one.identity());
  std::vector<int32_t> ids(size_t(many.size())), others(size_t(many.size()));
  many.read(0, ids);
  one.read(0, others);
  EXPECT_EQ(ids, others);
  for (int64_t d = 0; d <= many.documents(); ++d) ASSERT_EQ(many.document_begin(d), one.document_begin(d)) << d;
  for (int64_t i = 0; i < many.size(); i += 997) ASSERT_EQ(many[i], one[i]);
}

TEST_F(Shards, changed_data_is_noticed) {
  const auto vocabulary = byte_vocabulary();
  const std::string path = write("a.txt", words(3'000'000, 1)), out = at("out");
  Texts notices;
  const auto prepared = [&](bool overwrite = false) {
    notices.clear();
    PrepareOptions options = small();
    options.overwrite = overwrite;
    options.notice = [&](const std::string& text) { notices.push_back(text); };
    return prepare(Documents(path), *vocabulary, out, options);
  };
  const auto open = [&] {
    notices.clear();
    return TokenCache::prepared(out, *vocabulary, [&](const std::string& text) { notices.push_back(text); }).identity();
  };
  const int64_t shards = prepared().shards;
  const std::string identity = open();
  EXPECT_EQ(notices, Texts());
  EXPECT_EQ(prepared().kept, shards);
  // Another time of modification alone is no change: the contents have the same hash.
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  EXPECT_EQ(prepared().kept, shards);
  EXPECT_EQ(open(), identity);
  EXPECT_EQ(notices, Texts());
  // One byte in a place that the fingerprint does not read.
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(1'000'000).put('#');
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(2));
  EXPECT_EQ(open(), identity);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_HAS(notices[0], "a.txt has other contents now; training uses the prepared ids");
  EXPECT_HAS(message_of([&] { prepared(); }), "was prepared before: " + path + " has other contents now; pass --overwrite");
  EXPECT_EQ(prepared(true).kept, 0);
  EXPECT_NE(open(), identity);
  write("a.txt", "shorter");
  open();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_HAS(notices[0], "a.txt had 3000");
  fs::remove(path);  // the shards may be all that is kept
  open();
  EXPECT_EQ(notices, Texts());
}

TEST_F(Shards, damaged_shard_is_made_again_alone) {
  const auto vocabulary = byte_vocabulary();
  const std::string path = write("a.txt", words(300'000, 1)), out = at("out");
  const PrepareOutcome whole = prepare(Documents(path), *vocabulary, out, small());
  ASSERT_GT(whole.shards, 5);
  const auto expected = files_of("out");
  std::fstream(folder / "out/shard-00003.tokens", std::ios::in | std::ios::out | std::ios::binary).seekp(500).put('#');
  EXPECT_HAS(message_of([&] { TokenCache::prepared(out, *vocabulary); }), "out: a shard is damaged or missing");
  EXPECT_EQ(prepare(Documents(path), *vocabulary, out, small()).kept, 3);
  EXPECT_EQ(files_of("out"), expected);
  EXPECT_HAS(message_of([&] { TokenCache::prepared(out, *character_vocabulary({U'a'})); }), "was prepared with another tokenizer");
  EXPECT_HAS(message_of([&] { Documents documents(out); }), "out: holds prepared ids");
  write("full/mine.txt", "text");
  EXPECT_HAS(message_of([&] { prepare(Documents(path), *vocabulary, at("full"), small()); }),
             "full: is not empty and holds no prepared data");
  std::ofstream(folder / "out/weft-prepared.json") << "{\"format\": 9}";
  EXPECT_HAS(message_of([&] { TokenCache::prepared(out, *vocabulary); }), "weft-prepared.json: $.format is 9, expected 1");
}

TEST_F(Shards, copy_of_the_tokenizer_reads_the_ids) {
  const std::string path = write("a.jsonl", lines_of({"some words", "others"}));
  std::vector<std::unique_ptr<Vocabulary>> all;
  all.push_back(byte_vocabulary());
  all.push_back(character_vocabulary({U's', U'o', U'm', U'e', U' ', U'w', U'r', U'd', U't', U'h'}, true));
  all.push_back(tokenizer_vocabulary(std::string(WEFT_GOLDEN_MODELS) + "/gpt2", "\n"));
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string out = at("out" + std::to_string(i));
    prepare(Documents(path), *all[i], out, {.copy_tokenizer = true});
    ASSERT_TRUE(is_prepared_data(out));
    const auto copy = prepared_vocabulary(out);
    EXPECT_EQ(copy->end_of_text(), all[i]->end_of_text());
    const TokenCache tokens = TokenCache::prepared(out, *copy), same = TokenCache::prepared(out, *all[i]);
    std::vector<int32_t> ids(size_t(tokens.document_begin(1)) - 1);
    tokens.read(0, ids);
    EXPECT_EQ(copy->decode(ids), "some words");
    EXPECT_EQ(same.identity(), tokens.identity());
  }
}

// Sequences that are numbers: part * 1000 + position.
class Numbers : public Dataset {
 public:
  Numbers(int32_t part, int64_t sequences, int64_t held_out) : part_(part), sequences_(sequences), held_out_(held_out) {}
  std::string description() const override { return "numbers"; }
  std::string identity() const override { return join("n", part_); }
  const Vocabulary& vocabulary() const override { return *vocabulary_; }
  int64_t sequences_per_epoch() const override { return sequences_; }
  TokenBatch training_sequence(int64_t position) const override { return {1, 1, {part_ * 1000 + int32_t(position)}, {0}}; }
  int64_t validation_sequences() const override { return held_out_; }
  TokenBatch validation_sequence(int64_t index) const override { return {1, 1, {-part_ * 1000 - int32_t(index)}, {0}}; }

 private:
  const int32_t part_;
  const int64_t sequences_, held_out_;
  const std::unique_ptr<Vocabulary> vocabulary_ = byte_vocabulary();
};

TEST(mixture, weights_are_shares_of_the_sequences_of_an_epoch) {
  const auto mixed = [](double a, double b, uint64_t seed) {
    std::vector<MixturePart> parts;
    parts.push_back({std::make_unique<Numbers>(1, 30, 3), a});
    parts.push_back({std::make_unique<Numbers>(2, 70, 7), b});
    return mixture(std::move(parts), seed);
  };
  const auto data = mixed(7, 3, 5);
  ASSERT_EQ(data->sequences_per_epoch(), 100);
  std::vector<int32_t> order;
  for (int64_t p = 0; p < 300; ++p) order.push_back(data->training_sequence(p).ids[0]);
  // Each epoch has 70 of the first part and 30 of the second; each part's own positions follow each other, each once.
  std::vector<int32_t> seen;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> expected, found(order.begin() + epoch * 100, order.begin() + (epoch + 1) * 100);
    for (int32_t i = 0; i < 70; ++i) expected.push_back(1000 + int32_t(epoch) * 70 + i);
    for (int32_t i = 0; i < 30; ++i) expected.push_back(2000 + int32_t(epoch) * 30 + i);
    EXPECT_NE(found, expected);  // shuffled
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected);
  }
  EXPECT_NE(mixed(7, 3, 6)->training_sequence(0).ids[0], order[0]);
  EXPECT_EQ(mixed(0.7, 0.3, 5)->training_sequence(123).ids[0], order[123]);
  EXPECT_NE(mixed(6, 4, 5)->identity(), data->identity());
  ASSERT_EQ(data->validation_sequences(), 10);
  int of_second = 0;
  for (int64_t i = 0; i < 5; ++i) of_second += data->validation_sequence(i).ids[0] <= -2000;
  EXPECT_GE(of_second, 3);
  EXPECT_LE(of_second, 4);
  EXPECT_HAS(message_of([&] { mixed(1, 1e-9, 5); }), "gives numbers none of the 100 sequences");
}

TEST(mixture, validation_data_is_all_of_the_other_dataset) {
  const auto data = with_validation(std::make_unique<Numbers>(1, 30, 3), std::make_unique<Numbers>(2, 70, 7));
  EXPECT_EQ(data->sequences_per_epoch(), 30);
  EXPECT_EQ(data->validation_sequences(), 70);
  EXPECT_EQ(data->training_sequence(5).ids[0], 1005);
  EXPECT_EQ(data->validation_sequence(69).ids[0], 2069);
  EXPECT_EQ(data->identity(), "n1");
}

}  // namespace
}  // namespace weft
