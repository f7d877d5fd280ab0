#include <algorithm>
#include <set>
#include <unordered_map>

#include "weft/io/json.h"
#include "weft/io/tokenizer/decoder.h"
#include "weft/io/tokenizer/parts.h"
#include "weft/models/gguf_config.h"
#include "weft/models/gguf_pre_tokenizers.h"
#include "weft/models/gguf_tokenizer.h"
#include "weft/models/tokenizer_folder.h"

namespace weft {

using namespace gguf;

namespace {

using Merge = std::pair<std::string, std::string>;

std::vector<Merge> merges_of(const JsonNode& model) {
  std::vector<Merge> merges;
  for (const Json& merge : model.at("merges").list().value()) {
    if (merge.is_array()) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.get<std::string>();
    if (text.starts_with("#version")) continue;
    const size_t space = text.find(' ');
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

struct Tokens {
  std::vector<std::string> spellings;
  std::vector<int32_t> types;
};

// The tokens of all ids below the size of the embedding.
Tokens tokens_of(const TokenizerFolder& folder, const JsonNode& root, int64_t vocab_size) {
  const Tokenizer& tokenizer = folder.tokenizer();
  if (tokenizer.vocab_size() > vocab_size)
    fail(ErrorCode::unsupported, folder.file(), "has ", tokenizer.vocab_size(), " tokens, and the model an embedding of ", vocab_size,
         " rows; a GGUF file has a row for each token");
  std::set<int64_t> own;
  for (const auto& id : root.at("model").at("vocab").object().value()) own.insert(id.get<int64_t>());
  std::set<int64_t> added;
  if (const auto list = root.find("added_tokens"))
    for (const JsonNode& token : list->elements()) added.insert(token.at("id").integer());
  Tokens tokens;
  for (int64_t id = 0; id < vocab_size; ++id) {
    const std::string spelling(tokenizer.token_of(int32_t(id)));
    const bool plain = own.contains(id) && !added.contains(id);
    tokens.spellings.push_back(spelling.empty() ? unused_name(id) : spelling);
    tokens.types.push_back(spelling.empty() ? unused : tokenizer.is_special(int32_t(id)) ? control : plain ? normal : user_defined);
  }
  return tokens;
}

// Whether a space is added before the first word (SentencePiece's add_dummy_prefix). Throws for steps that llama.cpp does not have.
bool adds_space(const JsonNode& root) {
  bool prefix = false, spaces = false;
  const auto is_text = [](const JsonNode& step, const char* text) {
    const auto node = step.at("pattern").find("String");
    return node && node->text() == text;
  };
  if (const auto node = root.find("normalizer"))
    for (const JsonNode& step : steps_of(*node, "normalizers")) {
      const std::string type = step.at("type").text();
      if (type == "Prepend" && step.at("prepend").text() == kMark)
        prefix = true;
      else if (type == "Replace" && is_text(step, " ") && step.at("content").text() == kMark)
        spaces = true;
      else
        step.unsupported("is the normalizer '", shown(type), "', which llama.cpp does not have for SentencePiece's BPE");
    }
  if (const auto node = root.find("pre_tokenizer"))
    for (const JsonNode& step : steps_of(*node, "pretokenizers")) {
      const std::string type = step.at("type").text();
      if (type == "Metaspace" && read_mark(step.at("replacement")) == kMark) {
        prefix = read_prepend_scheme(step) != Metaspace::Prepend::never;
        spaces = true;
      } else if (!(type == "Split" && is_text(step, " "))) {  // Gemma's Split has no effect: its normalizer leaves no space
        step.unsupported("is the pre-tokenizer '", shown(type), "', which llama.cpp does not have for SentencePiece's BPE");
      }
    }
  if (!spaces) root.unsupported("spells spaces otherwise than llama.cpp does for SentencePiece's BPE");
  return prefix;
}

// The score of a token is minus the rank of the first merge that forms it. llama.cpp merges every pair that forms a token, so the merges
// must be all such pairs, as in files converted from SentencePiece.
std::vector<float> scores_of(const JsonNode& model, const Tokens& tokens) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t id = 0; id < tokens.spellings.size(); ++id)
    if (tokens.types[id] == normal) ids.emplace(tokens.spellings[id], id);
  std::set<Merge> listed;
  std::vector<float> scores(tokens.spellings.size(), 0);
  float rank = 0;
  for (const Merge& merge : merges_of(model)) {
    listed.insert(merge);
    const auto joined = ids.find(merge.first + merge.second);
    if (joined != ids.end() && scores[joined->second] == 0) scores[joined->second] = -++rank;
  }
  for (const auto& [token, id] : ids)
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const Merge pair{token.substr(0, cut), token.substr(cut)};
      if (ids.contains(pair.first) && ids.contains(pair.second) && !listed.contains(pair))
        model.at("merges").unsupported("lacks the pair '", shown(pair.first), "' '", shown(pair.second), "', which forms the token '",
                                       shown(token), "': llama.cpp would merge it, so this is not SentencePiece's BPE");
    }
  return scores;
}

void put_pieces(const JsonNode& root, Tokens& tokens, GgufMetadata& metadata) {
  const bool prefix = adds_space(root);
  const JsonNode model = root.at("model");
  if (!model.boolean_or("byte_fallback", false))
    model.unsupported("has no byte_fallback, which llama.cpp requires for SentencePiece's BPE");
  const std::string unknown_token = model.text_or("unk_token", "");
  for (size_t id = 0; id < tokens.spellings.size(); ++id) {
    if (byte_of_token(tokens.spellings[id]) && tokens.types[id] == normal) tokens.types[id] = byte;
    if (!unknown_token.empty() && tokens.spellings[id] == unknown_token) {
      tokens.types[id] = unknown;
      metadata.put(kUnknown, uint32_t(id));
    }
  }
  metadata.put(kModel, kPieces);
  metadata.put(kPre, "default");
  metadata.put(kScores, scores_of(model, tokens));
  metadata.put(kAddSpace, prefix);
}

void put_bytes(const JsonNode& root, GgufMetadata& metadata) {
  const GgufPreTokenizer& pre = gguf_pre_tokenizer(root);
  metadata.put(kModel, kBytes);
  metadata.put(kPre, pre.name);
  std::vector<std::string> merges;
  for (const Merge& merge : merges_of(root.at("model"))) merges.push_back(merge.first + " " + merge.second);
  metadata.put(kMerges, merges);
}

// Writes the tokens that encoding adds: llama.cpp can add one before and one after a text.
void put_special(const TokenizerFolder& folder, GgufMetadata& metadata) {
  const Tokenizer& tokenizer = folder.tokenizer();
  const auto before = tokenizer.before(), after = tokenizer.after();
  if (before.size() > 1 || after.size() > 1)
    fail(ErrorCode::unsupported, folder.file(), "adds ", before.size(), " tokens before and ", after.size(),
         " after a text; a GGUF file has at most one each");
  SpecialIds ids = folder.special_ids();
  if (!before.empty()) ids.bos_id = before[0];
  const auto first = !after.empty() ? std::optional(after[0]) : tokenizer.eos_id();
  if (first) {
    std::erase(ids.eos_ids, *first);
    ids.eos_ids.insert(ids.eos_ids.begin(), *first);
  }
  put_special_ids(ids, metadata);
  metadata.put(kAddBos, !before.empty());
  metadata.put(kAddEos, !after.empty());
}

}  // namespace

void put_tokenizer(const TokenizerFolder& folder, int64_t vocab_size, GgufMetadata& metadata) {
  const Json document = parse_json(folder.file(), folder.json());
  const JsonNode root(folder.file(), document);
  Tokens tokens = tokens_of(folder, root, vocab_size);
  if (folder.tokenizer().kind().starts_with("byte"))
    put_bytes(root, metadata);
  else
    put_pieces(root, tokens, metadata);
  metadata.put(kTokens, tokens.spellings);
  metadata.put(kTypes, tokens.types);
  put_special(folder, metadata);
  std::vector<std::string> names;
  for (const auto& [name, text] : folder.chat_templates()) {
    metadata.put(name == "default" ? std::string(kTemplate) : join(kTemplate, ".", name), text);
    if (name != "default") names.push_back(name);
  }
  if (!names.empty()) metadata.put(kTemplateNames, names);
}

void put_no_tokenizer(GgufMetadata& metadata) { metadata.put(kModel, kNone); }

}  // namespace weft
