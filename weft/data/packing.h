// Packing of documents into rows of a fixed number of tokens T.
//
//   none         one document a row, padded
//   concatenate  all documents in one stream that is cut every T tokens (weft/data/text_dataset.cpp)
//   documents    several documents a row, each by itself: positions restart, attention stays inside a document
//
// A document longer than T is split into pieces of T tokens and a last one of the rest; each piece is a document of its own. No token is
// left out, none is read twice.
//
// The rows of `documents` are found by best-fit decreasing: pieces in the order of their length, the longest first, those of one length in
// the order of their documents; each goes into the row with the least room that suffices, else into a new one (Ding et al., 2024, "Fewer
// Truncations Improve Language Modeling"). The result depends on the lengths alone. It takes O(log T) a piece, eight bytes for each piece
// and for each row, and thirty more a piece while it is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/data/token_documents.h"

namespace weft {

// The tokens [index T, (index + 1) T) of a document, or what there is of them.
struct Piece {
  uint32_t document = 0, index = 0;
  friend auto operator<=>(const Piece&, const Piece&) = default;
};

// Pieces in the order of their documents, without `end`.
struct PieceRange {
  Piece begin, end;
};
PieceRange all_pieces(const TokenDocuments& documents);  // throws if there are more than 2^32 - 1 documents
// Two ranges: the second is the shortest end of the pieces that has at least this fraction of all tokens, but never the first piece.
struct HeldOut {
  PieceRange training, validation;
};
HeldOut hold_out(const TokenDocuments& documents, int64_t row_tokens, double fraction);

// Documents without tokens are left out.
class PackedRows {
 public:
  // `packing` is none or documents.
  PackedRows(const TokenDocuments& documents, const PieceRange& range, int64_t row_tokens, Packing packing);

  int64_t size() const { return int64_t(begins_.size()) - 1; }
  std::span<const Piece> operator[](int64_t row) const {
    return std::span(pieces_).subspan(size_t(begins_[size_t(row)]), size_t(begins_[size_t(row) + 1] - begins_[size_t(row)]));
  }
  int64_t pieces() const { return int64_t(pieces_.size()); }
  int64_t tokens() const { return tokens_; }            // of all pieces
  int64_t most_pieces() const { return most_pieces_; }  // in a row
  // Pairs of a query and a key that attend, padding included, over those of rows that are one document each.
  double attention() const { return size() > 0 ? pairs_ / (double(size()) * causal_pairs(double(row_tokens_))) : 1; }

 private:
  std::vector<Piece> pieces_;    // row by row; in a row the longest first
  std::vector<int64_t> begins_;  // of each row in pieces_, and the end
  int64_t row_tokens_, tokens_ = 0, most_pieces_ = 0;
  double pairs_ = 0;
};

// Rows as sequences of a dataset. What is left of a row is padding: id 0, no target, and with Packing::documents a document of its own.
class PackedSequences {
 public:
  // `documents` outlives it.
  PackedSequences(const TokenDocuments& documents, const PieceRange& range, int64_t row_tokens, Packing packing);

  int64_t size() const { return rows_.size(); }
  TokenBatch sequence(int64_t row) const;
  const PackedRows& rows() const { return rows_; }

 private:
  const TokenDocuments& documents_;
  int64_t row_tokens_;
  Packing packing_;
  PackedRows rows_;
};

}  // namespace weft
