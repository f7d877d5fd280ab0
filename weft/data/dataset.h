// Training data as numbered sequences. The sequence at a position of the run depends on the position alone, so a checkpoint
// keeps nothing but the position.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"
#include "weft/tensor/tensor.h"

namespace weft {

inline constexpr int32_t kIgnored = -100;  // a target that does not count in the loss

// Token ids [rows, tokens] and, for each, the id that should follow it. One sequence of a dataset is one row of text; of sums it
// is a block of `sums_rows` examples, which count as one. A micro-batch is several sequences, stacked row by row.
struct TokenBatch {
  int64_t rows = 0, tokens = 0;
  std::vector<int32_t> ids, targets;  // row-major
  // Several documents a row: where each begins in `ids`, the first at 0, ascending. Empty: every row is one document.
  std::vector<int64_t> documents = {};
  int64_t document_capacity = 0;  // the most documents that a batch of as many rows of this dataset has; the same for all of them

  int64_t counted() const;  // targets that are not kIgnored
  // A mask with one value per id: 0 for padding, which are the ids after the last counted target of a row, else 1.
  std::vector<float> real() const;
  double attended_pairs() const;  // pairs of a query and a key of its document that is not after it
  Tensor upload_ids(Device& device) const;
  Tensor upload_targets(Device& device) const;
  // Cumulative lengths, i32 [capacity + 1]: where each document begins, then the number of ids up to the end, so that the shape does not
  // depend on the batch. Undefined if every row is one document.
  std::vector<int32_t> document_bounds() const;
  Tensor upload_documents(Device& device) const;
};

// Sequences of one length as one batch, row by row.
TokenBatch stacked(std::span<const TokenBatch> sequences);

// How documents fill sequences (weft/data/packing.h).
enum class Packing { none, concatenate, documents };
std::string_view name(Packing packing);
Packing packing_from_name(std::string_view name);  // throws for an unknown name, listing the known ones

struct PackingFacts {
  std::string name = "";  // empty: the data is not made of documents
  double padding = 0;     // share of the tokens of all training sequences
  double attention = 1;   // their pairs of a query and a key that attend, over those of sequences of one document each
};

// Pairs of a query and a key that is not after it, of so many tokens.
inline double causal_pairs(double tokens) { return tokens * (tokens + 1) / 2; }

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::string description() const = 0;
  // Changes with the contents and with the vocabulary.
  virtual std::string identity() const = 0;
  virtual std::string validation_identity() const { return identity(); }  // of the held-out sequences, if they are other data
  virtual const Vocabulary& vocabulary() const = 0;

  virtual int64_t sequences_per_epoch() const = 0;
  // The sequence at position 0, 1, 2, ... of the run; every epoch has an order of its own.
  virtual TokenBatch training_sequence(int64_t position) const = 0;

  // Share of the tokens (padding aside) that count in the loss.
  virtual double counted_share() const { return 1; }

  virtual int64_t validation_sequences() const = 0;  // held out; may be 0
  virtual TokenBatch validation_sequence(int64_t index) const = 0;

  virtual PackingFacts packing() const { return {}; }
};

struct TextOptions {
  std::string path = {};       // an unweighted list of files, folders and globs (data_list.h), or a prepared folder
  std::string field = "text";  // of a JSON object: the text
  std::string cache_folder;    // of tokenised data
  int64_t tokens = 256;        // per sequence
  Packing packing = Packing::concatenate;
  double validation_fraction = 0.05;  // of the sequences (of packed documents: of the tokens), taken from the end of the text
  uint64_t seed = 0;                  // of the order
  int64_t vocabulary_limit = 0;       // ids must be below it; 0: no limit
  int threads = 0;                    // that tokenise; 0: all that the process may use
  ConversationReader conversations = {};
};

// concatenate: sequence i reads ids [i tokens, (i + 1) tokens) and its targets are the ids one further, so that two neighbours share
// one id. Throws when the text is shorter than one sequence and the token after it.
// none, documents: the inputs of a document are its ids but the last, its targets all but the first; the separator after it belongs to it.
// Throws when no document has two ids or more.
std::unique_ptr<Dataset> text_dataset(const TextOptions& options, std::shared_ptr<const Vocabulary> vocabulary,
                                      const std::function<void(const std::string&)>& notice = {});

// All characters that occur, and the number of documents.
struct CharactersFound {
  std::vector<char32_t> characters;
  int64_t documents = 0;
};
CharactersFound characters_of(const Documents& documents);

}  // namespace weft
