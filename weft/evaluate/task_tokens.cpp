#include "weft/evaluate/task_tokens.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/chat/text.h"
#include "weft/io/json.h"

namespace weft {
namespace {

Generator::TokenTexts texts_of(const Tokenizer& tokenizer) {
  return [&tokenizer](int32_t id) -> Generator::TokenText { return {std::string(tokenizer.bytes_of(id)), tokenizer.is_special(id)}; };
}

// The token that a tokenizer_config.json names: a text, or an object with "content".
std::optional<int32_t> named_token(const Json& config, const char* name, const Tokenizer& tokenizer) {
  const auto found = config.find(name);
  if (found == config.end()) return {};
  const Json& token = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  return token.is_string() ? tokenizer.id_of(token.get<std::string>()) : std::nullopt;
}

template <class Ids>
void append(std::vector<int32_t>& to, const Ids& ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

std::span<const int32_t> part(const std::vector<int32_t>& ids, int64_t from, int64_t to) {
  return std::span(ids).subspan(size_t(from), size_t(to - from));
}

}  // namespace

TaskTokens::TaskTokens(const ModelFolder& folder) {
  const Tokenizer& tokenizer = folder.tokenizer();
  encode_ = [&tokenizer](std::string_view text, const std::string& where, Ids& ids) {
    append(ids, encode_text(tokenizer, text, where, false));
  };
  append(before_, tokenizer.before());
  end_ids_ = folder.end_ids();
  prefix_ = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
  if (!prefix_ && !end_ids_.empty()) prefix_ = end_ids_.front();
  if (prefix_) prefix_text_ = tokenizer.token_of(*prefix_);
  vocabulary_ = folder.config().vocab_size;
  texts_ = texts_of(tokenizer);
}

// The files that the run would write name the same tokens: its model has the results of the folder that it becomes.
TaskTokens::TaskTokens(std::shared_ptr<const Vocabulary> vocabulary) {
  const auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::parse(vocabulary->tokenizer_json()));
  const Json config = parse_json("tokenizer_config.json", vocabulary->tokenizer_config_json());
  append(before_, vocabulary->before());
  for (int64_t id : vocabulary->special_ids().eos_ids) end_ids_.push_back(int32_t(id));
  prefix_ = named_token(config, "bos_token", *tokenizer);
  if (!prefix_) prefix_ = named_token(config, "eos_token", *tokenizer);
  if (!prefix_ && !end_ids_.empty()) prefix_ = end_ids_.front();
  if (prefix_) prefix_text_ = tokenizer->token_of(*prefix_);
  vocabulary_ = vocabulary->size();
  encode_ = [vocabulary](std::string_view text, const std::string& where, Ids& ids) { vocabulary->encode(text, ids, where); };
  texts_ = [tokenizer, texts = texts_of(*tokenizer)](int32_t id) { return texts(id); };
}

// A text that spells out the token which begins a text gets no second one.
TaskTokens::Ids TaskTokens::encode(std::string_view text, const std::string& where, bool special) const {
  Ids ids;
  if (special && (prefix_text_.empty() || !text.starts_with(prefix_text_))) ids = before_;
  encode_(text, where, ids);
  for (int32_t id : ids)
    if (id >= vocabulary_) fail(ErrorCode::bad_file, where, "has token id ", id, ", the model's largest id is ", vocabulary_ - 1);
  return ids;
}

int32_t TaskTokens::first_token(const std::string& where) const {
  if (!prefix_)
    fail(ErrorCode::bad_file, where, "needs a token that begins a text, and the tokenizer names neither a beginning nor an end of text");
  return *prefix_;
}

EncodedPair TaskTokens::pair(std::string_view prompt, std::string_view continuation, int64_t context, const std::string& where) const {
  EncodedPair out;
  auto& [before, after] = out.ids;
  if (prompt.empty()) {
    after = encode(continuation, where, false);
    if (!after.empty() && prefix_ && after.front() == *prefix_) {
      after.erase(after.begin());
    }
    before = {first_token(where)};
  } else {
    const std::string_view kept = chat::stripped(prompt, {}, false, true);
    before = encode(kept, where);
    after = encode(join(prompt, continuation), where);
    after.erase(after.begin(), after.begin() + int64_t(std::min(before.size(), after.size())));
    if (before.empty()) before = {first_token(where)};
  }
  if (after.empty()) fail(ErrorCode::bad_file, where, shown(continuation), " adds no token to its prompt: there is nothing to score");
  if (int64_t(after.size()) > context)
    fail(ErrorCode::bad_file, where, shown(continuation), " has ", after.size(), " tokens, which do not fit in the context of ", context);
  if (const int64_t over = int64_t(before.size() + after.size()) - (context + 1); over > 0) {
    before.erase(before.begin(), before.begin() + over);
    out.truncated = true;
  }
  return out;
}

std::vector<ScoredPair> TaskTokens::windows(std::string_view text, int64_t context, const std::string& where) const {
  const Ids ids = encode(text, where);
  const int64_t count = int64_t(ids.size());
  std::vector<ScoredPair> windows;
  for (int64_t done = 0; done < count;) {
    const int64_t end = std::min(count, done + context);
    ScoredPair window;
    if (done == 0)
      window.prompt = {first_token(where)};
    else
      append(window.prompt, part(ids, end - context - 1, done));  // as much as fits: the last window is often short
    append(window.completion, part(ids, done, end));
    windows.push_back(std::move(window));
    done = end;
  }
  if (windows.empty()) fail(ErrorCode::bad_file, where, "encodes to zero tokens");
  return windows;
}

EncodedPair TaskTokens::prompt(std::string_view text, int64_t most, const std::string& where) const {
  EncodedPair out;
  Ids& ids = out.ids.prompt;
  ids = encode(text, where);
  if (ids.empty()) ids = {first_token(where)};
  if (const int64_t over = int64_t(ids.size()) - most; over > 0) {
    ids.erase(ids.begin(), ids.begin() + over);
    out.truncated = true;
  }
  return out;
}

}  // namespace weft
