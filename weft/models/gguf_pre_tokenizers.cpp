#include "weft/models/gguf_pre_tokenizers.h"

#include "weft/io/tokenizer/byte_alphabet.h"
#include "weft/io/tokenizer/parts.h"
#include "weft/io/tokenizer/patterns.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr GgufPreTokenizer kKinds[] = {
    {"gpt-2", " phi-2 olmo mpt jais exaone4 trillion granite-docling gigachat mellum a.x-4.0 ", false, nullptr, false, false, false},
    {"smollm", " starcoder refact command-r codeshell exaone minerva-7b ", true, nullptr, false, false, false},
    {"llama-bpe", " llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 ", false, kLlama3Pattern, true, false, true},
    {"smaug-bpe", " dbrx ", false, kLlama3Pattern, false, false, false},
    {"qwen2", " deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan ", false, kQwen2Pattern, false, true, false},
    {"tekken", " ", false, kTekkenPattern, true, false, true},
    {"gpt-4o", " llama4 kanana2 ", false, kGpt4oPattern, false, false, false},
};

// Accepts no normalizer but NFC: llama.cpp does not normalise, and for texts in NFC the ids are the same.
void check_normalizer(const JsonNode& root) {
  const auto node = root.find("normalizer");
  if (!node) return;
  for (const JsonNode& step : steps_of(*node, "normalizers"))
    if (const std::string type = step.at("type").text(); type != "NFC")
      step.unsupported("is the normalizer '", shown(type), "', which llama.cpp does not have for byte-level BPE");
}

struct Steps {
  bool digits = false;
  std::string pattern;  // empty: the pattern of ByteLevel
};

// Whether every merge stays within one character, as in vocabularies of bytes or characters; then all patterns give the same ids.
bool spells_characters(const JsonNode& model) {
  for (const Json& merge : model.at("merges").list().value()) {
    std::string token = merge.is_array() ? merge[0].get<std::string>() + merge[1].get<std::string>() : merge.get<std::string>();
    std::erase(token, ' ');
    const auto bytes = bytes_spelled(token);
    if (!bytes || bytes->empty() || utf8_step(*bytes).length != bytes->size()) return false;
  }
  return true;
}

// Whether the matches of a Split are its words. The known patterns match all text, so the treatment of unmatched text does not matter.
bool keeps_matches(const JsonNode& split) {
  return split.at("behavior").text() == (split.boolean_or("invert", false) ? "Removed" : "Isolated");
}

Steps steps_in(const JsonNode& node, const JsonNode& model) {
  Steps found;
  for (const JsonNode& step : steps_of(node, "pretokenizers")) {
    const std::string type = step.at("type").text();
    if (type == "Digits" && step.boolean_or("individual_digits", false) && !found.digits && found.pattern.empty()) {
      found.digits = true;
    } else if (type == "Split" && found.pattern.empty() && keeps_matches(step)) {
      const auto regex = step.at("pattern").find("Regex");
      if (!regex) step.unsupported("splits at a text, which no pre-tokenizer of llama.cpp does");
      found.pattern = regex->text();
    } else if (type == "ByteLevel") {
      if (step.boolean_or("add_prefix_space", true)) step.unsupported("sets add_prefix_space, which no pre-tokenizer of llama.cpp does");
      if (step.boolean_or("use_regex", true) && !found.pattern.empty()) step.unsupported("is a second pattern after a Split");
      if (!step.boolean_or("use_regex", true) && found.pattern.empty() && !spells_characters(model))
        step.unsupported("has no pattern, which no pre-tokenizer of llama.cpp does");
    } else {
      step.unsupported("is the step '", shown(type), "' in a place where no pre-tokenizer of llama.cpp has it");
    }
  }
  return found;
}

}  // namespace

const GgufPreTokenizer& gguf_pre_tokenizer(const JsonNode& root) {
  check_normalizer(root);
  const JsonNode node = root.at("pre_tokenizer");
  const Steps found = steps_in(node, root.at("model"));
  const bool ignore_merges = root.at("model").boolean_or("ignore_merges", false);
  for (const GgufPreTokenizer& kind : kKinds)
    if (kind.digits == found.digits && found.pattern == (kind.pattern ? kind.pattern : "") && kind.ignore_merges == ignore_merges)
      return kind;
  node.unsupported("is none of llama.cpp's pre-tokenizers that Weft supports (", gguf_pre_tokenizer_names(), ")",
                   ignore_merges ? " with ignore_merges" : "");
}

const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& kind : kKinds)
    if (name == kind.name || std::string_view(kind.aliases).find(join(" ", name, " ")) != std::string_view::npos) return &kind;
  return nullptr;
}

std::string gguf_pre_tokenizer_names() {
  std::string list;
  for (const GgufPreTokenizer& kind : kKinds) list += join(list.empty() ? "" : ", ", kind.name);
  return list;
}

Ordered normalizer_json(const GgufPreTokenizer& kind) { return kind.nfc ? Ordered{{"type", "NFC"}} : Ordered(nullptr); }

Ordered pre_tokenizer_json(const GgufPreTokenizer& kind) {
  Ordered steps = Ordered::array();
  if (kind.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (kind.pattern)
    steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", kind.pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", kind.pattern == nullptr}});
  return steps.size() == 1 ? steps[0] : Ordered{{"type", "Sequence"}, {"pretokenizers", steps}};
}

}  // namespace weft
