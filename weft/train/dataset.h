// What a training step reads, in units that are each one forward and backward pass. The unit at a position of the run is
// found from the position alone, so the position is all that a checkpoint needs to keep.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/train/vocabulary.h"

namespace weft {

inline constexpr int32_t kIgnored = -100;  // a target that is not counted

// `rows` sequences of `tokens` ids, and for each the id that should follow.
struct Unit {
  int64_t rows = 0, tokens = 0;
  std::vector<int32_t> ids, targets;  // row-major

  int64_t counted() const;  // targets that are not kIgnored
};

class Documents;

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::string description() const = 0;
  // Tells data apart: another content or another vocabulary is another identity.
  virtual std::string identity() const = 0;
  virtual const Vocabulary& vocabulary() const = 0;

  virtual int64_t units_per_epoch() const = 0;
  // Position 0, 1, 2, ... of the run; every epoch has its own order.
  virtual Unit training_unit(int64_t position) const = 0;

  virtual int64_t validation_units() const = 0;  // 0: nothing was held out
  virtual Unit validation_unit(int64_t index) const = 0;
};

struct TextOptions {
  std::string path;                   // a file or a folder
  std::string cache_folder;           // of tokens
  int64_t tokens = 256;               // per sequence
  double validation_fraction = 0.05;  // of the sequences, from the end of the text
  uint64_t seed = 0;                  // of the order
  int64_t vocabulary_limit = 0;       // ids must be below it; 0: any that the vocabulary has
  int threads = 0;                    // to tokenise with; 0: all that the process may use
};

// Packed sequences of `tokens` ids, one per unit: sequence i is ids [i tokens, (i + 1) tokens], the last one shared with
// the next sequence as its first. Throws when the text is shorter than one sequence.
std::unique_ptr<Dataset> text_dataset(const TextOptions& options, std::shared_ptr<const Vocabulary> vocabulary,
                                      const std::function<void(const std::string&)>& notice = {});

// All characters that occur, and in how many documents.
struct CharactersFound {
  std::vector<char32_t> characters;
  int64_t documents = 0;
};
CharactersFound characters_of(const Documents& documents);

}  // namespace weft
