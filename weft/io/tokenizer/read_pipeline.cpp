// tokenizer.json: the steps applied to a text before the model, and the tokens around it.
#include <algorithm>

#include "weft/io/tokenizer/cuts.h"
#include "weft/io/tokenizer/parts.h"
#include "weft/io/tokenizer/patterns.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr size_t kLongestPrepended = 1000;  // bytes; that of real files has three

SplitBehavior behavior_of(const JsonNode& node) {
  const std::string text = node.text();
  if (text == "Isolated") return SplitBehavior::isolated;
  if (text == "Removed") return SplitBehavior::removed;
  if (text == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (text == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (text == "Contiguous") return SplitBehavior::contiguous;
  node.refuse("is '", shown(text), "', expected Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

// A pattern is either a regular expression or a text.
struct Pattern {
  std::optional<JsonNode> regex, text;
};
Pattern pattern_of(const JsonNode& step) {
  const JsonNode node = step.at("pattern");
  const Pattern pattern{node.find("Regex"), node.find("String")};
  if (bool(pattern.regex) == bool(pattern.text)) node.refuse("must have either 'Regex' or 'String'");
  return pattern;
}

Splitter read_split(const JsonNode& step) {
  const auto [regex, literal] = pattern_of(step);
  const SplitBehavior behavior = behavior_of(step.at("behavior"));
  const bool invert = step.boolean_or("invert", false);
  const bool keeps_matches = behavior == (invert ? SplitBehavior::removed : SplitBehavior::isolated);
  return {.delimiter = regex ? Regex::from_pattern(where(*regex), regex->text()) : Regex::from_literal(where(*literal), literal->text()),
          .behavior = behavior,
          .invert = invert,
          .only_spaces = !invert && literal && literal->text() == " ",
          .at_cuts = keeps_matches && regex && splits_at_cuts(regex->text()) ? AtCuts::splits : AtCuts::unknown};
}

Splitter read_digits(const JsonNode& step) {
  const bool each = step.boolean_or("individual_digits", false);
  return {.delimiter = Regex::from_pattern(where(step), "\\p{N}"),
          .behavior = each ? SplitBehavior::isolated : SplitBehavior::contiguous,
          .at_cuts = AtCuts::neutral};
}

NormalizerStep read_normalizer_step(const JsonNode& step) {
  const std::string type = step.at("type").text();
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  if (type == "Replace") return read_replacement(step);
  if (type == "Strip") return StripSpaces{step.boolean_or("strip_left", true), step.boolean_or("strip_right", true)};
  if (type == "Prepend") {
    const std::string text = step.at("prepend").text();
    if (text.size() > kLongestPrepended) step.at("prepend").refuse("has ", text.size(), " bytes, the limit is ", kLongestPrepended);
    return Prepend{text};
  }
  step.unsupported("is the normalizer '", shown(type), "'; NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip and Sequence are supported");
}

// The position of the one text in the template, and the tokens around it.
void read_template(const JsonNode& step, Tokenizer::Parts& parts) {
  bool text_seen = false;
  for (const JsonNode& piece : step.at("single").elements()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (text_seen || sequence->text_or("id", "A") != "A") sequence->refuse("must be the one text, 'A', once");
      text_seen = true;
      continue;
    }
    const std::string name = piece.at("SpecialToken").at("id").text();
    for (const JsonNode& id : step.at("special_tokens").at(name).at("ids").elements()) {
      const int64_t value = id.integer();
      if (value >= int64_t(parts.tokens.size()) || parts.tokens[size_t(value)].spelling.empty())
        id.refuse("is ", value, ", which is not the id of a token");
      (text_seen ? parts.after : parts.before).push_back(int32_t(value));
    }
  }
  if (!text_seen) step.at("single").refuse("has no place for the text");
}

}  // namespace

std::vector<JsonNode> steps_of(const JsonNode& node, const std::string& list) {
  if (node.at("type").text() != "Sequence") return {node};
  std::vector<JsonNode> out;
  for (const JsonNode& step : node.at(list).elements())
    for (JsonNode& inner : steps_of(step, list)) out.push_back(std::move(inner));
  return out;
}

Replacement read_replacement(const JsonNode& step) {
  const auto [regex, literal] = pattern_of(step);
  const std::string content = step.at("content").text();
  return regex ? Replacement::of_regex(where(*regex), regex->text(), content)
               : Replacement::of_text(where(*literal), literal->text(), content);
}

std::string read_mark(const JsonNode& node) {
  const std::string mark = node.text();
  if (mark.empty() || utf8_step(mark).length != mark.size()) node.refuse("is '", shown(mark), "', expected one character");
  return mark;
}

// Older files have add_prefix_space alone: true is "always".
Metaspace::Prepend read_prepend_scheme(const JsonNode& step) {
  const bool prefix = step.boolean_or("add_prefix_space", true);
  const std::string scheme = step.text_or("prepend_scheme", prefix ? "always" : "never");
  if (!prefix && scheme != "never")
    step.refuse("has add_prefix_space false, but the prepend_scheme is '", shown(scheme), "', expected never");
  if (scheme == "always") return Metaspace::Prepend::always;
  if (scheme == "first") return Metaspace::Prepend::first;
  if (scheme != "never") step.at("prepend_scheme").refuse("is '", shown(scheme), "', expected always, first or never");
  return Metaspace::Prepend::never;
}

Normalizer read_normalizer(const JsonNode& root) {
  const auto node = root.find("normalizer");
  if (!node) return {};
  std::vector<NormalizerStep> steps;
  for (const JsonNode& step : steps_of(*node, "normalizers")) steps.push_back(read_normalizer_step(step));
  return Normalizer(std::move(steps));
}

PreTokenizer read_pre_tokenizer(const JsonNode& root) {
  const auto node = root.find("pre_tokenizer");
  if (!node) return {};
  std::vector<PreTokenizer::Step> steps;
  bool byte_level = false, prefix_space = false;
  for (const JsonNode& step : steps_of(*node, "pretokenizers")) {
    const std::string type = step.at("type").text();
    if (byte_level) step.unsupported("is the pre-tokenizer '", shown(type), "' after ByteLevel, which must be the last");
    if (type == "Split") {
      steps.push_back(read_split(step));
    } else if (type == "Digits") {
      steps.push_back(read_digits(step));
    } else if (type == "Metaspace") {
      steps.push_back(Metaspace{read_mark(step.at("replacement")), read_prepend_scheme(step), step.boolean_or("split", true)});
    } else if (type == "ByteLevel") {
      byte_level = true;
      prefix_space = step.boolean_or("add_prefix_space", true);
      if (step.boolean_or("use_regex", true)) {
        steps.push_back(Splitter{
            .delimiter = Regex::from_pattern(where(step), kGpt2Pattern), .add_prefix_space = prefix_space, .at_cuts = AtCuts::splits});
        prefix_space = false;
      }
    } else {
      step.unsupported("is the pre-tokenizer '", shown(type), "'; Split, Digits, Metaspace, ByteLevel and Sequence are supported");
    }
  }
  return PreTokenizer(std::move(steps), byte_level, prefix_space);
}

void read_post_processor(const JsonNode& root, Tokenizer::Parts& parts) {
  const auto node = root.find("post_processor");
  if (!node) return;
  bool templated = false;
  for (const JsonNode& step : steps_of(*node, "processors")) {
    const std::string type = step.at("type").text();
    if (type == "ByteLevel") continue;  // affects offsets only
    if (type != "TemplateProcessing")
      step.unsupported("is the post-processor '", shown(type), "'; ByteLevel, TemplateProcessing and Sequence are supported");
    if (templated) step.unsupported("is a second template");
    templated = true;
    read_template(step, parts);
  }
}

namespace {

// Which piece of a text is its first, for the scheme "first", depends on how the library aligns the characters that a normalizer inserts
// with those of the text, where the two are split later.
void check_first_pieces(const JsonNode& root, const Tokenizer::Parts& parts) {
  const auto& steps = parts.pre_tokenizer.steps();
  const auto marks_first = [](const PreTokenizer::Step& step) {
    const auto* marks = std::get_if<Metaspace>(&step);
    return marks && marks->prepend == Metaspace::Prepend::first;
  };
  const auto found = std::ranges::find_if(steps, marks_first);
  if (found == steps.end()) return;
  for (const NormalizerStep& step : parts.normalizer.steps()) {
    const bool regex = std::holds_alternative<Replacement>(step) && !std::get<Replacement>(step).literal();
    if (std::holds_alternative<Prepend>(step) || (regex && found != steps.begin()))
      root.at("pre_tokenizer").unsupported("has a Metaspace of prepend_scheme 'first' together with a normalizer that inserts text");
  }
}

}  // namespace

void add_token(const AddedToken& token, Tokenizer::Parts& parts) {
  const bool as_it_is = !token.normalized || parts.normalizer.keeps(token.content);
  const std::string spelling = as_it_is ? token.content : parts.normalizer.apply(token.content);
  (token.normalized ? parts.normalized : parts.raw).add(token, spelling);
  parts.cuts.add(token, spelling);
}

Tokenizer::Parts read_tokenizer(const JsonNode& root) {
  Tokenizer::Parts parts;
  parts.normalizer = read_normalizer(root);
  parts.pre_tokenizer = read_pre_tokenizer(root);
  check_first_pieces(root, parts);
  parts.decoder = read_decoder(root);
  read_model(root.at("model"), parts);
  parts.cuts = Cuts(parts.normalizer, parts.pre_tokenizer, parts.bpe);
  for (const AddedToken& token : read_added_tokens(root, parts)) add_token(token, parts);
  read_post_processor(root, parts);
  for (const char* name : {"truncation", "padding"})
    if (root.find(name)) parts.ignored.push_back(name);
  return parts;
}

}  // namespace weft
