#include "weft/data/packing.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/base/check.h"
#include "weft/base/progress.h"

namespace weft {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Rows by the room left in them. The least room that suffices is found in a tree of bits: bit i of a level says whether any of the bits
// [64 i, 64 (i + 1)) of the level below is set.
class Rooms {
 public:
  explicit Rooms(int64_t most) : first_(size_t(most) + 1, kNone) {
    size_t bits = first_.size();
    do {
      bits = (bits + 63) / 64;
      levels_.emplace_back(bits);
    } while (bits > 1);
  }

  void add(uint32_t row, int64_t room) {
    if (row >= next_.size()) next_.resize(size_t(row) + 1, kNone);
    next_[row] = first_[size_t(room)];
    first_[size_t(room)] = row;
    size_t at = size_t(room);
    for (auto& level : levels_) {
      level[at / 64] |= uint64_t(1) << at % 64;
      at /= 64;
    }
  }

  // The least room of any row that is `wanted` or more; -1: there is none.
  int64_t least(int64_t wanted) const {
    size_t at = size_t(wanted);
    for (size_t level = 0; level < levels_.size() && at / 64 < levels_[level].size(); ++level) {
      if (const uint64_t rest = levels_[level][at / 64] >> at % 64) {
        at += size_t(std::countr_zero(rest));
        while (level-- > 0) at = at * 64 + size_t(std::countr_zero(levels_[level][at]));
        return int64_t(at);
      }
      at = at / 64 + 1;
    }
    return -1;
  }

  // Removes the row that was added last of those with this room.
  uint32_t take(int64_t room) {
    const uint32_t row = first_[size_t(room)];
    first_[size_t(room)] = next_[row];
    size_t at = size_t(room);
    if (next_[row] == kNone)
      for (auto& level : levels_) {
        if (level[at / 64] &= ~(uint64_t(1) << at % 64)) break;
        at /= 64;
      }
    return row;
  }

 private:
  std::vector<uint32_t> first_, next_;         // by room; by row
  std::vector<std::vector<uint64_t>> levels_;  // from the rooms up
};

int64_t length_of(const TokenDocuments& documents, Piece piece, int64_t row_tokens) {
  return std::min(row_tokens, documents.length(piece.document) - int64_t(piece.index) * row_tokens);
}

// Calls visit(piece, length) for every piece that has tokens.
template <class Visit>
void for_each_piece(const TokenDocuments& documents, const PieceRange& range, int64_t row_tokens, const char* what, Visit&& visit) {
  constexpr uint32_t kReport = 1 << 16;  // documents between two reports
  const int64_t all = documents.size();
  for (uint32_t d = range.begin.document; d <= range.end.document && d < all; ++d) {
    if (d % kReport == 0) report_progress({.what = what, .done = int64_t(d), .total = all});
    const int64_t length = documents.length(d);
    const auto pieces = (length + row_tokens - 1) / row_tokens;
    const int64_t first = d == range.begin.document ? range.begin.index : 0;
    const int64_t end = d == range.end.document ? std::min<int64_t>(range.end.index, pieces) : pieces;
    for (int64_t i = first; i < end; ++i) visit(Piece{d, uint32_t(i)}, std::min(row_tokens, length - i * row_tokens));
  }
}

// The pieces shorter than a row, the longest first.
std::vector<Piece> by_length(const TokenDocuments& documents, const PieceRange& range, int64_t row_tokens, std::vector<int64_t>& ends) {
  std::vector<int64_t> counts(size_t(row_tokens) + 1);
  for_each_piece(documents, range, row_tokens, "measuring documents", [&](Piece, int64_t length) { ++counts[size_t(length)]; });
  ends.assign(size_t(row_tokens) + 1, 0);  // of the pieces of each length
  int64_t before = 0;
  for (int64_t length = row_tokens - 1; length > 0; --length) {
    ends[size_t(length)] = before;
    before += counts[size_t(length)];
  }
  std::vector<Piece> sorted(static_cast<size_t>(before));
  for_each_piece(documents, range, row_tokens, "sorting documents", [&](Piece piece, int64_t length) {
    if (length < row_tokens) sorted[size_t(ends[size_t(length)]++)] = piece;
  });
  return sorted;
}

// The row of each of the sorted pieces; rows are numbered in the order they are opened.
struct Fit {
  std::vector<uint32_t> row_of;
  uint32_t rows = 0;
  double pairs = 0;  // of a query and a key in one piece, or in the padding of one row
};
Fit best_fit(const std::vector<int64_t>& ends, int64_t pieces, int64_t row_tokens) {
  Rooms rooms(row_tokens);
  Fit fit{.row_of = std::vector<uint32_t>(static_cast<size_t>(pieces))};
  int64_t at = 0;
  for (int64_t length = row_tokens - 1; length > 0; --length)
    for (; at < ends[size_t(length)]; ++at) {
      const int64_t room = rooms.least(length);
      const uint32_t row = room < 0 ? fit.rows++ : rooms.take(room);
      fit.row_of[size_t(at)] = row;
      const int64_t left = (room < 0 ? row_tokens : room) - length;
      fit.pairs += causal_pairs(double(length)) + causal_pairs(double(left)) - (room < 0 ? 0 : causal_pairs(double(room)));
      if (left > 0) rooms.add(row, left);
    }
  return fit;
}

}  // namespace

std::string_view name(Packing packing) {
  return packing == Packing::none ? "none" : packing == Packing::concatenate ? "concatenate" : "documents";
}

Packing packing_from_name(std::string_view text) {
  for (Packing packing : {Packing::none, Packing::concatenate, Packing::documents})
    if (name(packing) == text) return packing;
  fail(ErrorCode::invalid_argument, "data", "packing is '", text, "', expected none, concatenate or documents");
}

PieceRange all_pieces(const TokenDocuments& documents) {
  check(documents.size() < int64_t(kNone), "data", "there are ", documents.size(), " documents, expected fewer than ", kNone);
  return {{0, 0}, {uint32_t(documents.size()), 0}};
}

HeldOut hold_out(const TokenDocuments& documents, int64_t row_tokens, double fraction) {
  const PieceRange all = all_pieces(documents);
  int64_t tokens = 0;
  Piece first = all.end, split = all.end;
  for_each_piece(documents, all, row_tokens, "measuring documents", [&](Piece piece, int64_t length) {
    first = std::min(first, piece);
    tokens += length;
  });
  const auto wanted = int64_t(std::ceil(double(tokens) * fraction));
  int64_t held = 0;
  for (int64_t d = documents.size() - 1; d >= 0 && held < wanted; --d) {
    const int64_t length = documents.length(d);
    for (int64_t i = (length + row_tokens - 1) / row_tokens - 1; i >= 0 && held < wanted; --i) {
      const Piece piece{uint32_t(d), uint32_t(i)};
      if (piece == first) return {{all.begin, split}, {split, all.end}};
      held += std::min(row_tokens, length - i * row_tokens);
      split = piece;
    }
  }
  return {{all.begin, split}, {split, all.end}};
}

PackedRows::PackedRows(const TokenDocuments& documents, const PieceRange& range, int64_t row_tokens, Packing packing)
    : row_tokens_(row_tokens) {
  check(packing != Packing::concatenate, "data", "packing is concatenate, expected none or documents");
  check(row_tokens >= 1 && row_tokens < int64_t(kNone), "data", "a row has ", row_tokens, " tokens, expected 1 or more");
  const auto add_row = [&](Piece piece, int64_t length) {
    if (packing == Packing::none || length == row_tokens) {
      begins_.push_back(int64_t(pieces_.size()));
      pieces_.push_back(piece);
      pairs_ += causal_pairs(double(row_tokens));
    }
    tokens_ += length;
    most_pieces_ = 1;
  };
  for_each_piece(documents, range, row_tokens, "packing documents", add_row);
  if (packing == Packing::documents) {
    std::vector<int64_t> ends;
    const std::vector<Piece> sorted = by_length(documents, range, row_tokens, ends);
    check(pieces_.size() + sorted.size() < kNone, "data", "there are ", pieces_.size() + sorted.size(),
          " pieces of documents, expected fewer than ", kNone);
    const auto [row_of, rows, pairs] = best_fit(ends, int64_t(sorted.size()), row_tokens);
    pairs_ += pairs;
    std::vector<int64_t> places(size_t(rows) + 1);  // of the next piece of each row, after their number
    for (uint32_t row : row_of) ++places[row + 1];
    for (size_t row = 0; row < rows; ++row) {
      most_pieces_ = std::max(most_pieces_, places[row + 1]);
      places[row + 1] += places[row];
    }
    const size_t before = pieces_.size();
    for (size_t row = 0; row < rows; ++row) begins_.push_back(int64_t(before) + places[row]);
    pieces_.resize(before + sorted.size());
    for (size_t i = 0; i < sorted.size(); ++i) pieces_[before + size_t(places[row_of[i]]++)] = sorted[i];
  }
  begins_.push_back(int64_t(pieces_.size()));
}

PackedSequences::PackedSequences(const TokenDocuments& documents, const PieceRange& range, int64_t row_tokens, Packing packing)
    : documents_(documents), row_tokens_(row_tokens), packing_(packing), rows_(documents, range, row_tokens, packing) {}

TokenBatch PackedSequences::sequence(int64_t row) const {
  const auto T = size_t(row_tokens_);
  TokenBatch batch{1, row_tokens_, std::vector<int32_t>(T, 0), std::vector<int32_t>(T, kIgnored)};
  const bool several = packing_ == Packing::documents;
  if (several) batch.document_capacity = rows_.most_pieces() + 1;  // one more for the padding
  size_t at = 0;
  for (const Piece& piece : rows_[row]) {
    const auto length = size_t(length_of(documents_, piece, row_tokens_));
    documents_.read(piece.document, int64_t(piece.index) * row_tokens_, std::span(batch.ids).subspan(at, length),
                    std::span(batch.targets).subspan(at, length));
    if (several) batch.documents.push_back(int64_t(at));
    at += length;
  }
  if (several && at < T) batch.documents.push_back(int64_t(at));
  return batch;
}

}  // namespace weft
