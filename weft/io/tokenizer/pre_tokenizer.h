// Splits text into the words that merges stay within: a chain of splitters, each splitting every piece of the previous one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/tokenizer/regex.h"

namespace weft {

enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// Behaviour of a splitter at the places where a text may be cut (weft/io/tokenizer/cuts.h): it always splits there, it never looks across
// them, or it is unknown.
enum class AtCuts { unknown, neutral, splits };

struct Splitter {
  Regex delimiter;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;            // the text between matches delimits
  bool add_prefix_space = false;  // prepend a space to a piece that does not start with one
  AtCuts at_cuts = AtCuts::unknown;
};

class PreTokenizer {
 public:
  struct Scratch {
    Regex::Scratch regex;
    struct Stage {
      std::vector<std::pair<Match, bool>> spans;
      std::vector<Match> pieces;
      std::string prefixed;
    };
    std::vector<Stage> stages;
  };

  PreTokenizer() = default;
  // `word_prefix_space`: as add_prefix_space, for the output of the last splitter.
  PreTokenizer(std::vector<Splitter> splitters, bool word_prefix_space)
      : splitters_(std::move(splitters)), prefix_space_(word_prefix_space) {}

  bool allows_cuts() const;  // of the text before it is split

  // Calls `word` with every piece of `text` in order; none is empty.
  using Word = std::function<void(std::string_view)>;
  void split(std::string_view text, Scratch& scratch, const Word& word) const;

 private:
  void split_from(size_t stage, std::string_view text, Scratch& scratch, const Word& word) const;

  std::vector<Splitter> splitters_;
  bool prefix_space_ = false;
};

}  // namespace weft
