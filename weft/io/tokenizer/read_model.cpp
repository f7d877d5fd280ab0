// tokenizer.json: the vocabulary, the merges and the added tokens.
#include "weft/io/tokenizer/byte_alphabet.h"
#include "weft/io/tokenizer/parts.h"

namespace weft {
namespace {

constexpr int64_t kMostTokens = 10'000'000;

void check_type(const JsonNode& model) {
  const std::string type = model.text_or("type", model.find("merges") ? "BPE" : "absent");
  if (type != "BPE") model.unsupported("has type '", shown(type), "'; only BPE tokenizers are supported");
  if (model.number_or("dropout", 0) != 0) model.at("dropout").unsupported("sets BPE dropout, which is random and not supported");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const std::string text = model.text_or(key, ""); !text.empty())
      model.at(key).unsupported("is '", shown(text), "', which is not supported");
}

}  // namespace

void put_token(const JsonNode& node, Tokenizer::Parts& parts, const std::string& spelling, int64_t id) {
  if (size_t(id) >= parts.tokens.size()) parts.tokens.resize(size_t(id) + 1);
  Token& token = parts.tokens[size_t(id)];
  if (!token.spelling.empty() && token.spelling != spelling)
    node.refuse("gives id ", id, " to both '", shown(token.spelling), "' and '", shown(spelling), "'");
  token.spelling = spelling;
  parts.ids[spelling] = int32_t(id);
}

namespace {

// The tokens by the text they spell: bytes for byte-level BPE, where a token with a character outside the alphabet spells none.
StringMap<int32_t> read_vocab(const JsonNode& vocab, Tokenizer::Parts& parts) {
  const Json& members = vocab.object().value();
  if (members.empty()) vocab.refuse("is empty");
  // Ids need not be dense, but a file of a few bytes must not make us allocate gigabytes.
  const int64_t most = std::min(kMostTokens, int64_t(members.size()) * 16 + 4096);
  StringMap<int32_t> by_text;
  by_text.reserve(members.size());
  const bool byte_level = parts.pre_tokenizer.byte_level();
  parts.ids.reserve(members.size());
  parts.tokens.reserve(members.size());
  for (const auto& [spelling, id] : members.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t(most))
      vocab.refuse("gives '", shown(spelling), "' the id ", shown_value(id), ", expected an integer below ", most);
    put_token(vocab, parts, spelling, id.get<int64_t>());
    const auto text = byte_level ? bytes_spelled(spelling) : std::optional(spelling);
    if (text && !text->empty()) by_text[*text] = id.get<int32_t>();
  }
  return by_text;
}

// A merge is ["a", "b"], or "a b" in older files.
std::pair<std::string_view, std::string_view> halves(const JsonNode& merges, size_t index) {
  const Json& merge = merges.value()[index];
  const auto refuse = [&] { merges.refuse("[", index, "] is ", shown_value(merge), ", expected two tokens"); };
  if (merge.is_array()) {
    if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) refuse();
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (!merge.is_string()) refuse();
  const std::string_view text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) refuse();
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<Bpe::Merge> read_merges(const JsonNode& merges, const Tokenizer::Parts& parts) {
  const size_t count = merges.list().value().size();
  std::vector<Bpe::Merge> out;
  out.reserve(count);
  std::string joined;
  for (size_t i = 0; i < count; ++i) {
    const Json& merge = merges.value()[i];
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = halves(merges, i);
    const auto id = [&](std::string_view token) {
      const auto found = parts.ids.find(token);
      if (found == parts.ids.end()) merges.refuse("[", i, "] needs the token '", shown(token), "', which is not in the vocabulary");
      return found->second;
    };
    joined.assign(left).append(right);
    out.push_back({id(left), id(right), id(joined)});
  }
  return out;
}

// Whether every byte has a token.
bool has_all_bytes(const StringMap<int32_t>& by_bytes) {
  for (int byte = 0; byte < 256; ++byte)
    if (!by_bytes.contains(std::string(1, char(byte)))) return false;
  return true;
}

}  // namespace

void read_model(const JsonNode& model, Tokenizer::Parts& parts) {
  check_type(model);
  const bool byte_level = parts.pre_tokenizer.byte_level();
  StringMap<int32_t> by_text = read_vocab(model.at("vocab"), parts);
  const auto merges = read_merges(model.at("merges"), parts);
  Bpe::Options options{.alphabet = byte_level ? Bpe::Alphabet::bytes : Bpe::Alphabet::characters,
                       .ignore_merges = model.boolean_or("ignore_merges", false),
                       .fuse_unk = model.boolean_or("fuse_unk", false),
                       .byte_fallback = model.boolean_or("byte_fallback", false),
                       .file = model.file()};
  if (byte_level && options.byte_fallback && !has_all_bytes(by_text))
    model.at("byte_fallback").unsupported("is set for a byte-level vocabulary that lacks a byte, which is not supported");
  if (const auto unk = model.find("unk_token")) {
    const auto found = parts.ids.find(unk->text());
    if (found != parts.ids.end())
      options.unk = found->second;
    else
      options.unk_missing = unk->file() + ": " + unk->path();
  }
  parts.bpe = Bpe(std::move(by_text), merges, options);
}

std::vector<AddedToken> read_added_tokens(const JsonNode& root, Tokenizer::Parts& parts) {
  std::vector<AddedToken> added;
  const auto list = root.find("added_tokens");
  if (!list) return added;
  const int64_t most = std::min(kMostTokens, int64_t(parts.tokens.size() + list->list().value().size()) * 2 + 4096);
  for (const JsonNode& node : list->elements()) {
    AddedToken token{.id = int32_t(node.at("id").integer(0, most)),
                     .content = node.at("content").text(),
                     .single_word = node.boolean_or("single_word", false),
                     .lstrip = node.boolean_or("lstrip", false),
                     .rstrip = node.boolean_or("rstrip", false),
                     .normalized = node.boolean_or("normalized", !node.boolean_or("special", false)),
                     .special = node.boolean_or("special", false)};
    if (token.content.empty()) node.at("content").refuse("is empty");
    if (const auto known = parts.ids.find(token.content); known != parts.ids.end() && known->second != token.id)
      node.refuse("gives '", shown(token.content), "' the id ", token.id, ", but it has id ", known->second, " elsewhere");
    put_token(node, parts, token.content, token.id);
    parts.tokens[size_t(token.id)].special |= token.special;
    added.push_back(std::move(token));
  }
  return added;
}

void prepare_tokens(Tokenizer::Parts& parts) {
  Regex::Scratch scratch;
  for (Token& token : parts.tokens) {
    token.prepared = parts.decoder.prepared(token.spelling, scratch);
    token.bytes = parts.decoder.bytes_of(token.prepared);
  }
}

}  // namespace weft
