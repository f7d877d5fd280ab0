#include "weft/data/chat_vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/io/tokenizer/tokenizer.h"
#include "weft/models/tokenizer_folder.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

class ChatVocabulary : public Vocabulary {
 public:
  ChatVocabulary(std::unique_ptr<Vocabulary> base, const ChatTemplate& chat)
      : base_(std::move(base)),
        chat_(chat),
        json_(base_->tokenizer_json(chat.tokens)),
        tokenizer_(Tokenizer::parse(json_, "tokenizer.json", config())) {
    for (const std::string& token : chat.tokens) {
      const auto id = tokenizer_.id_of(token);
      check(id && tokenizer_.is_special(*id), "train", "the tokenizer has the token ", token, " already, but not as a special token");
      size_ = std::max(size_, int64_t(*id) + 1);
    }
    size_ = std::max(size_, base_->size());
    end_of_turn_ = *tokenizer_.id_of(chat.end_of_turn);
  }

  int64_t size() const override { return size_; }
  const Tokenizer* tokenizer() const override { return &tokenizer_; }
  std::string decode(std::span<const int32_t> ids) const override { return tokenizer_.decode(ids); }
  std::span<const int32_t> before() const override { return tokenizer_.before(); }
  std::span<const int32_t> after() const override { return tokenizer_.after(); }
  std::string kind() const override { return base_->kind() + " and " + std::string(chat_.name); }
  std::string tokenizer_json(const std::vector<std::string>& added) const override {
    check(added.empty(), "vocabulary", "a chat vocabulary takes no more tokens");
    return json_;
  }
  bool no_separator() const override { return base_->no_separator(); }

  // The base's; a base that has none ends documents as it ends turns.
  std::optional<int32_t> end_of_text() const override {
    if (base_->end_of_text() || no_separator()) return base_->end_of_text();
    return end_of_turn_;
  }
  SpecialIds special_ids() const override {
    SpecialIds ids = base_->special_ids();
    std::erase(ids.eos_ids, int64_t(end_of_turn_));
    ids.eos_ids.insert(ids.eos_ids.begin(), end_of_turn_);
    return ids;
  }
  uint64_t hash() const override {
    const int32_t end = end_of_text().value_or(-1);
    uint64_t hash = xxh64(std::as_bytes(std::span(json_)), base_->hash());
    hash = xxh64(std::as_bytes(std::span(chat_.text)), hash);
    return xxh64(std::as_bytes(std::span(&end, 1)), hash);
  }

  // A tokenizer encodes with the new tokens; characters and bytes are encoded between them.
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view where, bool rest) const override {
    if (is_tokenizer()) {
      const std::vector<int32_t> found = encode_text(tokenizer_, text, where, false, rest);
      ids.insert(ids.end(), found.begin(), found.end());
      return;
    }
    for (size_t at = 0; at < text.size();) {
      const Found next = next_token(text, at);
      if (next.at > at) base_->encode(text.substr(at, next.at - at), ids, where);
      if (next.token) ids.push_back(*tokenizer_.id_of(*next.token));
      at = next.at + (next.token ? next.token->size() : 0);
    }
  }

  size_t cut(std::string_view text, size_t most) const override {
    if (is_tokenizer()) return tokenizer_.cut(text, most);
    const size_t cut = base_->cut(text, most);
    for (const std::string& token : chat_.tokens)
      for (size_t back = 1; back < token.size() && back <= cut; ++back)
        if (text.substr(cut - back).starts_with(token)) return cut - back;  // 0: the text begins with it, and no more fits
    return cut;
  }

  std::string tokenizer_config_json() const override {
    Json config = Json::parse(base_->tokenizer_config_json());
    config["eos_token"] = chat_.end_of_turn;
    if (config.contains("added_tokens_decoder"))
      for (const std::string& token : chat_.tokens)
        config["added_tokens_decoder"][std::to_string(*tokenizer_.id_of(token))] = {
            {"content", token}, {"lstrip", false}, {"normalized", false}, {"rstrip", false}, {"single_word", false}, {"special", true}};
    config["chat_template"] = chat_.text;
    return config.dump(2) + "\n";
  }
  TokenizerFiles files() const override { return tokenizer_files(json_, tokenizer_config_json(), std::string(chat_.text)); }

 private:
  struct Found {
    size_t at;
    const std::string* token;  // null: none, and `at` is the end of the text
  };
  Found next_token(std::string_view text, size_t from) const {
    Found first{text.size(), nullptr};
    for (const std::string& token : chat_.tokens)
      if (const size_t at = text.find(token, from); at < first.at) first = {at, &token};
    return first;
  }
  bool is_tokenizer() const { return base_->kind() == "tokenizer"; }

  TokenizerConfig config() const {
    const Json written = Json::parse(base_->tokenizer_config_json());
    const auto token = [&](const char* key) -> std::optional<std::string> {
      const auto found = written.find(key);
      if (found == written.end() || found->is_null()) return std::nullopt;
      return found->is_object() ? found->at("content").get<std::string>() : found->get<std::string>();
    };
    const auto flag = [&](const char* key) -> std::optional<bool> {
      const auto found = written.find(key);
      return found == written.end() || !found->is_boolean() ? std::nullopt : std::optional(found->get<bool>());
    };
    TokenizerConfig config;
    config.bos_token = token("bos_token");
    config.eos_token = std::string(chat_.end_of_turn);
    config.pad_token = token("pad_token");
    config.add_bos = flag("add_bos_token");
    config.add_eos = flag("add_eos_token");
    return config;
  }

  std::unique_ptr<Vocabulary> base_;
  const ChatTemplate& chat_;
  std::string json_;
  Tokenizer tokenizer_;
  int64_t size_ = 0;
  int32_t end_of_turn_ = 0;
};

}  // namespace

std::unique_ptr<Vocabulary> chat_vocabulary(std::unique_ptr<Vocabulary> base, const ChatTemplate& chat) {
  return std::make_unique<ChatVocabulary>(std::move(base), chat);
}

}  // namespace weft
