// tokenizer_config.json over tokenizer.json: the special tokens, and the tokens around a text.
#include "weft/io/tokenizer/parts.h"

namespace weft {
namespace {

// The id of a token by name; an empty name (older files spell an absent token so) counts as absent.
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

// Both files have a token, with different ids or contents.
void check_agreement(const ConfiguredToken& token, const TokenizerConfig& config, const std::string& file, const Tokenizer::Parts& parts) {
  if (const auto known = parts.ids.find(token.content); known != parts.ids.end() && known->second != token.id)
    fail(ErrorCode::bad_file, config.file, "$.added_tokens_decoder gives '", shown(token.content), "' the id ", token.id, ", but ", file,
         " gives it the id ", known->second);
  if (size_t(token.id) >= parts.tokens.size()) return;
  const std::string& spelling = parts.tokens[size_t(token.id)].spelling;
  if (!spelling.empty() && spelling != token.content)
    fail(ErrorCode::bad_file, config.file, "$.added_tokens_decoder gives the id ", token.id, " to '", shown(token.content), "', but ", file,
         " gives it to '", shown(spelling), "'");
}

// A token of tokenizer_config.json alone is added, as `transformers` does. A token of both is as tokenizer.json has it.
void add_configured(const ConfiguredToken& token, const TokenizerConfig& config, const std::string& file, Tokenizer::Parts& parts) {
  check_agreement(token, config, file, parts);
  if (token.content.empty() || parts.ids.contains(token.content)) return;
  const size_t most = parts.tokens.size() * 2 + 4096;  // ids need not be dense, but a small file must not allocate gigabytes
  if (size_t(token.id) >= most)
    fail(ErrorCode::bad_file, config.file, "$.added_tokens_decoder gives '", shown(token.content), "' the id ", token.id,
         ", expected one below ", most, " for the vocabulary of ", file);
  if (size_t(token.id) >= parts.tokens.size()) parts.tokens.resize(size_t(token.id) + 1);
  parts.tokens[size_t(token.id)].spelling = token.content;
  parts.tokens[size_t(token.id)].special = token.special;
  parts.ids[token.content] = token.id;
  add_token({.id = token.id,
             .content = token.content,
             .single_word = token.single_word,
             .lstrip = token.lstrip,
             .rstrip = token.rstrip,
             .normalized = token.normalized,
             .special = token.special},
            parts);
}

// A named token that begins or ends a text must be in the vocabulary: its id would be a guess.
void check_named(const std::optional<std::string>& token, const char* key, const TokenizerConfig& config, const std::string& file,
                 const Tokenizer::Parts& parts) {
  if (!token || token->empty() || parts.ids.contains(*token)) return;
  fail(ErrorCode::bad_file, config.file.empty() ? "special_tokens_map.json" : config.file, "$.", key, " is '", shown(*token),
       "', which is not a token of ", file);
}

}  // namespace

void apply_config(const TokenizerConfig& config, const std::string& file, Tokenizer::Parts& parts) {
  for (const ConfiguredToken& token : config.added_tokens) add_configured(token, config, file, parts);
  check_named(config.bos_token, "bos_token", config, file, parts);
  check_named(config.eos_token, "eos_token", config, file, parts);
  parts.bos_id = id_of(config.bos_token, parts);
  parts.eos_id = id_of(config.eos_token, parts);
  parts.pad_id = id_of(config.pad_token, parts);
  if (config.add_bos) set_token(parts.before, *config.add_bos, parts.bos_id, true, "bos_token", file);
  if (config.add_eos) set_token(parts.after, *config.add_eos, parts.eos_id, false, "eos_token", file);
}

}  // namespace weft
