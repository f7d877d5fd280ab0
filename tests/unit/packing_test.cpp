// Rows of documents: every token exactly once, no overlap, little padding, and the same rows every time.
#include "weft/data/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace weft {
namespace {

// Token i of all documents has the id i + 1 and the target i + 2; so the documents have ids without gaps, and padding is told apart.
class Counted : public TokenDocuments {
 public:
  explicit Counted(std::vector<int64_t> lengths) : lengths_(std::move(lengths)), begins_(lengths_.size() + 1) {
    std::partial_sum(lengths_.begin(), lengths_.end(), begins_.begin() + 1);
  }
  int64_t size() const override { return int64_t(lengths_.size()); }
  int64_t length(int64_t document) const override { return lengths_[size_t(document)]; }
  void read(int64_t document, int64_t begin, std::span<int32_t> ids, std::span<int32_t> targets) const override {
    ASSERT_LE(begin + int64_t(ids.size()), length(document));
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = int32_t(begins_[size_t(document)] + begin + int64_t(i) + 1);
      targets[i] = ids[i] + 1;
    }
  }
  int64_t tokens() const { return begins_.back(); }
  int64_t document_of(int32_t id) const { return std::upper_bound(begins_.begin(), begins_.end(), int64_t(id) - 1) - begins_.begin() - 1; }
  int64_t begin(int64_t document) const { return begins_[size_t(document)]; }

 private:
  std::vector<int64_t> lengths_, begins_;
};

std::vector<int64_t> random_lengths(uint32_t seed, size_t count, int64_t most) {
  std::mt19937 random(seed);
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < count; ++i) lengths.push_back(int64_t(random() % uint32_t(most + 1)));  // 0 too
  return lengths;
}

// Checks one row and marks its tokens.
void check_row(const Counted& documents, const TokenBatch& row, int64_t T, Packing packing, std::vector<int>& seen) {
  ASSERT_EQ(row.rows, 1);
  ASSERT_EQ(row.tokens, T);
  std::vector<int64_t> begins = packing == Packing::none ? std::vector<int64_t>{0} : row.documents;
  ASSERT_FALSE(begins.empty());
  EXPECT_LE(int64_t(row.documents.size()), row.document_capacity);
  begins.push_back(T);
  EXPECT_EQ(begins.front(), 0);
  for (size_t d = 0; d + 1 < begins.size(); ++d) {
    ASSERT_LT(begins[d], begins[d + 1]);
    const int32_t first = row.ids[size_t(begins[d])];
    const bool padding = first == 0;
    EXPECT_TRUE(!padding || d + 2 == begins.size()) << "padding is last";
    if (!padding) {
      EXPECT_EQ((first - 1 - documents.begin(documents.document_of(first))) % T, 0) << "pieces begin at multiples of the row";
    }
    int64_t real = 0;
    for (int64_t i = begins[d]; i < begins[d + 1]; ++i) {
      const int32_t id = row.ids[size_t(i)], target = row.targets[size_t(i)];
      if (id == 0) {
        EXPECT_TRUE(padding || packing == Packing::none);
        EXPECT_EQ(target, kIgnored);
        continue;
      }
      EXPECT_EQ(id, first + int32_t(real++));
      EXPECT_EQ(target, id + 1);
      EXPECT_EQ(documents.document_of(id), documents.document_of(first));
      ++seen[size_t(id)];
    }
  }
}

void check_all(const Counted& documents, int64_t T, Packing packing, double fraction) {
  const HeldOut parts = hold_out(documents, T, fraction);
  std::vector<int> seen(size_t(documents.tokens()) + 1);
  int64_t held = 0;
  for (const PieceRange& range : {parts.training, parts.validation}) {
    const PackedSequences sequences(documents, range, T, packing);
    int64_t tokens = 0;
    double pairs = 0;
    for (int64_t row = 0; row < sequences.size(); ++row) {
      const TokenBatch batch = sequences.sequence(row);
      check_row(documents, batch, T, packing, seen);
      tokens += batch.counted();
      pairs += batch.attended_pairs();
    }
    const double whole = double(sequences.size()) * causal_pairs(double(T));
    EXPECT_DOUBLE_EQ(sequences.rows().attention(), whole > 0 ? pairs / whole : 1);
    EXPECT_EQ(tokens, sequences.rows().tokens());
    held = tokens;
  }
  for (size_t id = 1; id < seen.size(); ++id) ASSERT_EQ(seen[id], 1) << "token " << id;
  EXPECT_GE(double(held), fraction * double(documents.tokens()));
  EXPECT_LT(double(held), fraction * double(documents.tokens()) + double(T));
}

TEST(packing, every_token_is_in_one_row) {
  for (uint32_t seed = 0; seed < 12; ++seed)
    for (int64_t T : {1, 2, 7, 64, 65, 200})
      for (Packing packing : {Packing::none, Packing::documents}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << T << " tokens, " << name(packing));
        const Counted documents(random_lengths(seed, 60 + seed * 13, seed % 3 == 0 ? 20 : seed % 3 == 1 ? 150 : 700));
        check_all(documents, T, packing, seed % 2 ? 0.1 : 0.0);
      }
}

// A row is opened only for a piece that fits into no row before it.
TEST(packing, rows_are_opened_only_when_needed) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const int64_t T = 100 + seed;
    const Counted documents(random_lengths(seed, 500, seed % 2 ? 60 : 180));
    const PackedRows rows(documents, all_pieces(documents), T, Packing::documents);
    const auto length = [&](Piece piece) { return std::min<int64_t>(T, documents.length(piece.document) - int64_t(piece.index) * T); };
    int64_t most_room = 0;  // of the rows before
    for (int64_t row = 0; row < rows.size(); ++row) {
      int64_t used = 0;
      for (Piece piece : rows[row]) used += length(piece);
      ASSERT_LE(used, T);
      EXPECT_GT(length(rows[row].front()), most_room) << "row " << row;
      most_room = std::max(most_room, T - used);
    }
  }
}

TEST(packing, padding_is_little) {
  const int64_t T = 512;
  const Counted documents(random_lengths(3, 20000, T));
  const PackedRows rows(documents, all_pieces(documents), T, Packing::documents), alone(documents, all_pieces(documents), T, Packing::none);
  const auto padding = [&](const PackedRows& r) { return 1 - double(r.tokens()) / double(r.size() * T); };
  EXPECT_LT(padding(rows), 0.01);
  EXPECT_GT(padding(alone), 0.4);
  const int64_t least = (rows.tokens() + T - 1) / T;
  EXPECT_LE(double(rows.size()), 11.0 / 9 * double(least) + 1);
}

TEST(packing, depends_on_lengths_alone) {
  const std::vector<int64_t> lengths = random_lengths(5, 3000, 90);
  const Counted a(lengths), b(lengths);
  const PackedRows first(a, all_pieces(a), 128, Packing::documents), second(b, all_pieces(b), 128, Packing::documents);
  ASSERT_EQ(first.size(), second.size());
  for (int64_t row = 0; row < first.size(); ++row) EXPECT_TRUE(std::ranges::equal(first[row], second[row]));
}

TEST(packing, a_million_documents) {
  const Counted documents(random_lengths(7, 1'000'000, 2000));
  const PackedRows rows(documents, all_pieces(documents), 1024, Packing::documents);
  EXPECT_EQ(rows.tokens(), documents.tokens());
  EXPECT_LT(double(rows.size()), 1.02 * double(documents.tokens()) / 1024);
}

TEST(packing, the_first_piece_is_never_held_out) {
  for (std::vector<int64_t> lengths : {std::vector<int64_t>{5}, {0, 0, 5, 0}, {64}, {0, 64, 0, 0}}) {
    const Counted documents(std::move(lengths));
    const HeldOut parts = hold_out(documents, 64, 0.5);
    EXPECT_EQ(PackedRows(documents, parts.training, 64, Packing::documents).size(), 1);
    EXPECT_EQ(PackedRows(documents, parts.validation, 64, Packing::documents).size(), 0);
  }
  const Counted one({640});  // one text: its last pieces are held out
  const HeldOut parts = hold_out(one, 64, 0.25);
  EXPECT_EQ(PackedRows(one, parts.training, 64, Packing::none).size(), 7);
  EXPECT_EQ(PackedRows(one, parts.validation, 64, Packing::none).size(), 3);
}

TEST(packing, stacked_rows_keep_their_documents) {
  const Counted documents({3, 2, 4});
  const PackedSequences sequences(documents, all_pieces(documents), 6, Packing::documents);  // 4 + 2, then 3 and padding
  ASSERT_EQ(sequences.size(), 2);
  const TokenBatch two = stacked(std::vector{sequences.sequence(0), sequences.sequence(1)});
  EXPECT_EQ(two.rows, 2);
  EXPECT_EQ(two.documents, (std::vector<int64_t>{0, 4, 6, 9}));
  EXPECT_EQ(two.document_capacity, 6);
  EXPECT_EQ(two.document_bounds(), (std::vector<int32_t>{0, 4, 6, 9, 12, 12, 12}));
  const TokenBatch plain{1, 2, {1, 2}, {2, 3}};
  EXPECT_TRUE(stacked(std::vector{plain, plain}).documents.empty());
  EXPECT_TRUE(plain.document_bounds().empty());
}

TEST(packing, what_no_target_needs_is_padding) {
  const TokenBatch batch{.rows = 3,
                         .tokens = 4,
                         .ids = std::vector<int32_t>(12),
                         .targets = {1, 2, kIgnored, kIgnored, kIgnored, 5, kIgnored, 7, kIgnored, kIgnored, kIgnored, kIgnored}};
  EXPECT_EQ(batch.real(), (std::vector<float>{1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(packing, has_names) {
  for (Packing packing : {Packing::none, Packing::concatenate, Packing::documents}) EXPECT_EQ(packing_from_name(name(packing)), packing);
  EXPECT_THROW(packing_from_name("best"), Error);
}

}  // namespace
}  // namespace weft
