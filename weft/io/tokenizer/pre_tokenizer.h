// Splits text into the words that merges stay within: a chain of splitters, each splitting every piece of the previous one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
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
  bool only_spaces = false;       // the delimiter is the text " "
  AtCuts at_cuts = AtCuts::unknown;
};

// SentencePiece's spelling of spaces: a mark such as '▁' replaces each, is put in front of a text that does not start with one, and (with
// `split`) starts a word.
struct Metaspace {
  enum class Prepend { always, first, never };
  std::string mark = "\xe2\x96\x81";
  Prepend prepend = Prepend::always;
  bool split = true;
};

// The beginning of a text that is pre-tokenized: that of the whole text, a place after an added token or within the text, or, for a
// text that was cut, the place of the cut, where nothing may be prepended.
enum class Edge { start, inner, cut };

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
  // `word_prefix_space`: as add_prefix_space, for the output of the last step.
  using Step = std::variant<Splitter, Metaspace>;
  PreTokenizer(std::vector<Step> steps, bool byte_level, bool word_prefix_space)
      : steps_(std::move(steps)), byte_level_(byte_level), prefix_space_(word_prefix_space) {}

  bool byte_level() const { return byte_level_; }  // its words are encoded as bytes
  const std::vector<Step>& steps() const { return steps_; }
  bool splits_at_cuts() const;  // of byte-level texts, before they are split

  // Calls `word` with every piece of `text` in order; none is empty.
  using Word = std::function<void(std::string_view)>;
  void split(std::string_view text, Edge edge, Scratch& scratch, const Word& word) const;

 private:
  void split_from(size_t stage, std::string_view text, Edge edge, Scratch& scratch, const Word& word) const;
  void split_marks(size_t stage, const Metaspace& step, std::string_view text, Edge edge, Scratch& scratch, const Word& word) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool prefix_space_ = false;
};

}  // namespace weft
