// tokenizer.json: the steps applied to text before the model and to tokens after it.
#include "weft/io/tokenizer/cuts.h"
#include "weft/io/tokenizer/parts.h"

namespace weft {
namespace {

constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The steps of a member: one step, or a Sequence of them.
std::vector<JsonNode> steps(const JsonNode& node, const std::string& list) {
  if (node.at("type").text() != "Sequence") return {node};
  std::vector<JsonNode> out;
  for (const JsonNode& step : node.at(list).elements())
    for (JsonNode& inner : steps(step, list)) out.push_back(std::move(inner));
  return out;
}

std::string where(const JsonNode& node) { return node.file() + ": " + node.path(); }

SplitBehavior behavior_of(const JsonNode& node) {
  const std::string text = node.text();
  if (text == "Isolated") return SplitBehavior::isolated;
  if (text == "Removed") return SplitBehavior::removed;
  if (text == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (text == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (text == "Contiguous") return SplitBehavior::contiguous;
  node.refuse("is '", shown(text), "', expected Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

Splitter read_split(const JsonNode& step) {
  const JsonNode pattern = step.at("pattern");
  const auto regex = pattern.find("Regex"), literal = pattern.find("String");
  if (bool(regex) == bool(literal)) pattern.refuse("must have either 'Regex' or 'String'");
  const SplitBehavior behavior = behavior_of(step.at("behavior"));
  const bool invert = step.boolean_or("invert", false);
  const bool keeps_matches = behavior == (invert ? SplitBehavior::removed : SplitBehavior::isolated);
  return {.delimiter = regex ? Regex::from_pattern(where(*regex), regex->text()) : Regex::from_literal(where(*literal), literal->text()),
          .behavior = behavior,
          .invert = invert,
          .at_cuts = keeps_matches && regex && splits_at_cuts(regex->text()) ? AtCuts::splits : AtCuts::unknown};
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

Normalizer read_normalizer(const JsonNode& root) {
  const auto node = root.find("normalizer");
  if (!node) return {};
  std::vector<NormalForm> forms;
  for (const JsonNode& step : steps(*node, "normalizers")) {
    const std::string type = step.at("type").text();
    if (type == "NFC")
      forms.push_back(NormalForm::nfc);
    else if (type == "NFD")
      forms.push_back(NormalForm::nfd);
    else if (type == "NFKC")
      forms.push_back(NormalForm::nfkc);
    else if (type == "NFKD")
      forms.push_back(NormalForm::nfkd);
    else
      step.unsupported("is the normalizer '", shown(type), "'; NFC, NFD, NFKC, NFKD and Sequence are supported");
  }
  return Normalizer(std::move(forms));
}

PreTokenizer read_pre_tokenizer(const JsonNode& root) {
  const auto node = root.find("pre_tokenizer");
  if (!node) root.unsupported("has no pre_tokenizer; only byte-level BPE is supported");
  std::vector<Splitter> splitters;
  bool byte_level = false, prefix_space = false;
  for (const JsonNode& step : steps(*node, "pretokenizers")) {
    const std::string type = step.at("type").text();
    if (byte_level) step.unsupported("is the pre-tokenizer '", shown(type), "' after ByteLevel, which must be the last");
    if (type == "Split") {
      splitters.push_back(read_split(step));
    } else if (type == "Digits") {
      const bool each = step.boolean_or("individual_digits", false);
      splitters.push_back({.delimiter = Regex::from_pattern(where(step), "\\p{N}"),
                           .behavior = each ? SplitBehavior::isolated : SplitBehavior::contiguous,
                           .at_cuts = AtCuts::neutral});
    } else if (type == "ByteLevel") {
      byte_level = true;
      prefix_space = step.boolean_or("add_prefix_space", true);
      if (step.boolean_or("use_regex", true)) {
        splitters.push_back(
            {.delimiter = Regex::from_pattern(where(step), kGpt2Pattern), .add_prefix_space = prefix_space, .at_cuts = AtCuts::splits});
        prefix_space = false;
      }
    } else {
      step.unsupported("is the pre-tokenizer '", shown(type), "'; Split, Digits, ByteLevel and Sequence are supported");
    }
  }
  if (!byte_level) node->unsupported("has no ByteLevel step; only byte-level BPE is supported");
  return PreTokenizer(std::move(splitters), prefix_space);
}

void read_post_processor(const JsonNode& root, Tokenizer::Parts& parts) {
  const auto node = root.find("post_processor");
  if (!node) return;
  bool templated = false;
  for (const JsonNode& step : steps(*node, "processors")) {
    const std::string type = step.at("type").text();
    if (type == "ByteLevel") continue;  // affects offsets only
    if (type != "TemplateProcessing")
      step.unsupported("is the post-processor '", shown(type), "'; ByteLevel, TemplateProcessing and Sequence are supported");
    if (templated) step.unsupported("is a second template");
    templated = true;
    read_template(step, parts);
  }
}

void check_decoder(const JsonNode& root) {
  const JsonNode decoder = root.at("decoder");
  const std::string type = decoder.at("type").text();
  if (type != "ByteLevel") decoder.unsupported("is the decoder '", shown(type), "'; only ByteLevel is supported");
}

Tokenizer::Parts read_tokenizer(const JsonNode& root) {
  Tokenizer::Parts parts;
  parts.normalizer = read_normalizer(root);
  parts.pre_tokenizer = read_pre_tokenizer(root);
  check_decoder(root);
  read_model(root.at("model"), parts);
  parts.allows_cuts = parts.normalizer.allows_cuts() && parts.pre_tokenizer.allows_cuts();
  for (const AddedToken& token : read_added_tokens(root, parts)) {
    const bool as_it_is = !token.normalized || parts.normalizer.keeps(token.content);
    const std::string spelling = as_it_is ? token.content : parts.normalizer.apply(token.content);
    (token.normalized ? parts.normalized : parts.raw).add(token, spelling);
    parts.allows_cuts = parts.allows_cuts && allows_cuts(token, spelling);
  }
  read_post_processor(root, parts);
  return parts;
}

namespace {

// The id of a token by name. An unknown name (older files spell an absent token as "") counts as absent.
std::optional<int32_t> id_of(const std::optional<std::string>& token, const Tokenizer::Parts& parts) {
  const auto found = token ? parts.ids.find(*token) : parts.ids.end();
  return found == parts.ids.end() ? std::nullopt : std::optional(found->second);
}

// With `add` the template has the token exactly once, at its end of `around`; without it, never.
void set_token(std::vector<int32_t>& around, bool add, const std::optional<int32_t>& id, bool at_front, const char* key,
               const std::string& file) {
  if (add && !id)
    fail(ErrorCode::bad_file, file, "tokenizer_config.json beside it sets add_", key, ", but names no ", key, " that this vocabulary has");
  if (!id) return;
  std::erase(around, *id);
  if (add) around.insert(at_front ? around.begin() : around.end(), *id);
}

}  // namespace

void apply_config(const TokenizerConfig& config, const std::string& file, Tokenizer::Parts& parts) {
  parts.bos_id = id_of(config.bos_token, parts);
  parts.eos_id = id_of(config.eos_token, parts);
  parts.pad_id = id_of(config.pad_token, parts);
  if (config.add_bos) set_token(parts.before, *config.add_bos, parts.bos_id, true, "bos_token", file);
  if (config.add_eos) set_token(parts.after, *config.add_eos, parts.eos_id, false, "eos_token", file);
}

}  // namespace weft
