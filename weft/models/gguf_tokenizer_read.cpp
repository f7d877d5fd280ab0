#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "weft/io/json.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/models/gguf_config.h"
#include "weft/models/gguf_pre_tokenizers.h"
#include "weft/models/gguf_tokenizer.h"

namespace weft {

using namespace gguf;

namespace {

using Ordered = nlohmann::ordered_json;

struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<int64_t> types;
  std::unordered_map<std::string_view, int64_t> ids;  // of the tokens in use
  bool in_use(size_t id) const { return types[id] != unused || tokens[id] != unused_name(int64_t(id)); }
};

Vocabulary read_vocabulary(const Gguf& file) {
  Vocabulary v{.tokens = file.texts(kTokens), .types = file.integers(kTypes), .ids = {}};
  if (v.tokens.empty()) fail(ErrorCode::bad_file, file.path(), "has no tokens in ", kTokens);
  if (v.types.empty()) v.types.assign(v.tokens.size(), normal);
  if (v.types.size() != v.tokens.size())
    fail(ErrorCode::bad_file, file.path(), kTypes, " has ", v.types.size(), " elements, expected ", v.tokens.size(),
         ", one for each token");
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const std::string_view token = v.tokens[id];
    if (first_invalid_utf8(token) != token.size()) fail(ErrorCode::bad_file, file.path(), kTokens, "[", id, "] is not UTF-8");
    if (token.empty() || !v.in_use(id)) continue;
    const auto [known, added] = v.ids.emplace(token, int64_t(id));
    if (!added) fail(ErrorCode::bad_file, file.path(), kTokens, " has '", shown(token), "' twice, as ", known->second, " and ", id);
  }
  return v;
}

std::string quoted(std::string_view text) { return Json(text).dump(); }

// Builds the JSON as text: inserting into an Ordered object is linear in its size, and a vocabulary may have 200,000 tokens.
std::string vocab_json(const Vocabulary& v) {
  std::string out;
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (!v.tokens[id].empty() && v.in_use(id)) out += join(out.empty() ? "" : ",", quoted(v.tokens[id]), ":", id);
  return "{" + out + "}";
}

using Merge = std::pair<std::string_view, std::string_view>;

std::string merges_json(const std::vector<Merge>& merges) {
  std::string out;
  for (const auto& [left, right] : merges) out += join(out.empty() ? "[" : ",[", quoted(left), ",", quoted(right), "]");
  return "[" + out + "]";
}

std::vector<Merge> listed_merges(const Gguf& file, const Vocabulary& v) {
  std::vector<Merge> merges;
  if (!file.metadata().contains(kMerges)) fail(ErrorCode::bad_file, file.path(), "has no key '", kMerges, "'");
  for (const std::string_view text : file.texts(kMerges)) {
    const auto refuse = [&](const auto&... parts) { fail(ErrorCode::bad_file, file.path(), kMerges, "[", merges.size(), "] ", parts...); };
    const size_t space = text.find(' ', 1);
    if (space == text.npos || text.find(' ', space + 1) != text.npos) refuse("is '", shown(text), "', expected two tokens");
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    for (const std::string& token :
         {std::string(merges.back().first), std::string(merges.back().second), join(merges.back().first, merges.back().second)})
      if (!v.ids.contains(token)) refuse("needs the token '", shown(token), "', which ", kTokens, " lacks");
  }
  return merges;
}

// All pairs of tokens that form a token, in order of its score, then of the id of the left token.
std::vector<Merge> merges_by_score(const Gguf& file, const Vocabulary& v) {
  const std::vector<float> scores = file.numbers(kScores);
  if (scores.size() != v.tokens.size())
    fail(ErrorCode::bad_file, file.path(), kScores, " has ", scores.size(), " elements, expected ", v.tokens.size(),
         ", one for each token");
  for (size_t id = 0; id < scores.size(); ++id)
    if (std::isnan(scores[id])) fail(ErrorCode::bad_file, file.path(), kScores, "[", id, "] is not a number");
  std::vector<size_t> order;
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (v.types[id] == normal || v.types[id] == user_defined) order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<Merge> merges;
  for (const size_t id : order) {
    const std::string_view token = v.tokens[id];
    std::vector<std::pair<std::pair<int64_t, int64_t>, Merge>> pairs;
    for (size_t cut = 1; cut < token.size() && cut < 256; ++cut) {
      if ((uint8_t(token[cut]) & 0xc0) == 0x80) continue;  // inside a character
      const auto left = v.ids.find(token.substr(0, cut)), right = v.ids.find(token.substr(cut));
      if (left != v.ids.end() && right != v.ids.end()) pairs.push_back({{left->second, right->second}, {left->first, right->first}});
    }
    std::sort(pairs.begin(), pairs.end());
    for (const auto& pair : pairs) merges.push_back(pair.second);
  }
  return merges;
}

Ordered added_tokens(const Vocabulary& v) {
  Ordered added = Ordered::array();
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const bool special = v.types[id] == control || v.types[id] == unknown;
    if ((!special && v.types[id] != user_defined) || v.tokens[id].empty()) continue;
    added.push_back({{"id", id},
                     {"content", v.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

// The special tokens by name, and those that encoding adds.
struct Special {
  std::map<std::string, std::string> names;  // bos_token ...
  std::map<std::string, int64_t> ids;
  bool add_bos = false, add_eos = false;
};

Special read_special(const Gguf& file, const Vocabulary& v, bool bos_by_default) {
  Special special;
  const SpecialIds ids = gguf_special_ids(file);
  const auto name = [&](const char* key, std::optional<int64_t> id) {
    if (!id || *id < 0 || *id >= int64_t(v.tokens.size()) || v.tokens[size_t(*id)].empty() || !v.in_use(size_t(*id))) return;
    special.names[key] = v.tokens[size_t(*id)];
    special.ids[key] = *id;
  };
  name("bos_token", ids.bos_id);
  name("eos_token", ids.eos_ids.empty() ? std::nullopt : std::optional(ids.eos_ids[0]));
  name("pad_token", ids.pad_id);
  name("unk_token", file.find_integer(kUnknown, -1, UINT32_MAX));
  for (size_t id = 0; id < v.tokens.size() && !special.names.contains("unk_token"); ++id)
    if (v.types[id] == unknown) name("unk_token", int64_t(id));
  const auto add = [&](const char* key, const char* token, bool otherwise) {
    const bool wanted = file.find_boolean(key).value_or(otherwise && special.names.contains(token));
    if (wanted && !special.names.contains(token)) fail(ErrorCode::bad_file, file.path(), key, " is true, but the file names no ", token);
    return wanted;
  };
  special.add_bos = add(kAddBos, "bos_token", bos_by_default);
  special.add_eos = add(kAddEos, "eos_token", false);
  return special;
}

Ordered post_processor(const Special& special) {
  if (!special.add_bos && !special.add_eos) return nullptr;
  Ordered single = Ordered::array(), pair = Ordered::array(), tokens = Ordered::object();
  const auto put = [&](Ordered& list, const char* key, int type) {
    const std::string& token = special.names.at(key);
    list.push_back({{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    tokens[token] = {{"id", token}, {"ids", {special.ids.at(key)}}, {"tokens", {token}}};
  };
  const auto text = [&](Ordered& list, const char* id, int type) {
    if (special.add_bos) put(list, "bos_token", type);
    list.push_back({{"Sequence", {{"id", id}, {"type_id", type}}}});
    if (special.add_eos) put(list, "eos_token", type);
  };
  text(single, "A", 0);
  text(pair, "A", 0);
  text(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

// The members of tokenizer.json that differ between the two models.
struct Kind {
  Ordered normalizer, pre_tokenizer, decoder;
  std::string model;  // members of "model" except vocab and merges
  std::vector<Merge> merges;
  bool bos_by_default = false;
};

Kind bytes_kind(const Gguf& file, const Vocabulary& v) {
  const std::string name = file.find_text(kPre).value_or("default");
  const GgufPreTokenizer* pre = gguf_pre_tokenizer(name);
  if (!pre) fail(ErrorCode::unsupported, file.path(), kPre, " is '", shown(name), "'; supported are ", gguf_pre_tokenizer_names());
  const Ordered byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return {normalizer_json(*pre),
          pre_tokenizer_json(*pre),
          byte_level,
          join(R"("unk_token":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":)", pre->ignore_merges ? "true" : "false"),
          listed_merges(file, v),
          pre->begins_with_bos};
}

Kind pieces_kind(const Gguf& file, const Vocabulary& v) {
  const bool prefix = file.find_boolean(kAddSpace).value_or(true);
  const Ordered spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  Ordered normalizers = Ordered::array(), decoders = Ordered::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  normalizers.push_back(spaces);
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  std::string unknown_token = "null";
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (v.types[id] == unknown) unknown_token = quoted(v.tokens[id]);
  return {{{"type", "Sequence"}, {"normalizers", normalizers}},
          nullptr,
          {{"type", "Sequence"}, {"decoders", decoders}},
          join(R"("unk_token":)", unknown_token, R"(,"fuse_unk":true,"byte_fallback":true,"ignore_merges":false)"),
          merges_by_score(file, v),
          true};
}

std::string tokenizer_json(const Vocabulary& v, const Kind& kind, const Special& special) {
  const std::string model = join(R"({"type":"BPE","dropout":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)", kind.model,
                                 ",\"vocab\":", vocab_json(v), ",\"merges\":", merges_json(kind.merges), "}");
  return join(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)", added_tokens(v).dump(),
              ",\"normalizer\":", kind.normalizer.dump(), ",\"pre_tokenizer\":", kind.pre_tokenizer.dump(),
              ",\"post_processor\":", post_processor(special).dump(), ",\"decoder\":", kind.decoder.dump(), ",\"model\":", model, "}\n");
}

std::map<std::string, std::string> read_templates(const Gguf& file) {
  std::map<std::string, std::string> templates;
  if (const auto text = file.find_text(kTemplate)) templates["default"] = *text;
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  for (const std::string_view name : file.texts(kTemplateNames)) {
    if (name.empty() || name.size() > 100 || name.find_first_not_of(kLetters) != name.npos)  // export uses it as the name of a file
      fail(ErrorCode::bad_file, file.path(), kTemplateNames, " has the name '", shown(name), "', expected letters, digits, _ and -");
    if (const auto text = file.find_text(join(kTemplate, ".", name))) templates[std::string(name)] = *text;
  }
  for (const auto& [name, text] : templates)
    if (first_invalid_utf8(text) != text.size()) fail(ErrorCode::bad_file, file.path(), kTemplate, " '", shown(name), "' is not UTF-8");
  return templates;
}

}  // namespace

std::string gguf::unused_name(int64_t id) { return join("[PAD", id, "]"); }

bool has_gguf_tokenizer(const Gguf& file) {
  const auto model = file.find_text(kModel);
  return model && *model != kNone && *model != "no_vocab";
}

GgufTokenizer read_gguf_tokenizer(const Gguf& file) {
  const std::string model = file.text(kModel);
  if (model != kBytes && model != kPieces)
    fail(ErrorCode::unsupported, file.path(), kModel, " is '", shown(model), "'; supported are ", kBytes, " (byte-level BPE) and ", kPieces,
         " (SentencePiece's BPE)");
  const Vocabulary vocabulary = read_vocabulary(file);
  const Kind kind = model == kBytes ? bytes_kind(file, vocabulary) : pieces_kind(file, vocabulary);
  const Special special = read_special(file, vocabulary, kind.bos_by_default);
  Ordered config = {{"add_bos_token", special.add_bos}, {"add_eos_token", special.add_eos}, {"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const auto& [key, token] : special.names) config[key] = token;
  GgufTokenizer out;
  out.json = tokenizer_json(vocabulary, kind, special);
  out.config_json = config.dump(2) + "\n";
  const auto named = [&](const char* key) {
    const auto found = special.names.find(key);
    return found == special.names.end() ? std::nullopt : std::optional(found->second);
  };
  out.templates = read_templates(file);
  out.config = {.file = file.path(),
                .added_tokens = {},
                .bos_token = named("bos_token"),
                .eos_token = named("eos_token"),
                .pad_token = named("pad_token"),
                .add_bos = special.add_bos,
                .add_eos = special.add_eos,
                .chat_template = !out.templates.empty()};
  out.special = special.names;
  return out;
}

}  // namespace weft
