#include "weft/data/vocabulary.h"

#include <algorithm>
#include <map>

#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/io/tokenizer/tokenizer.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/models/tokenizer_folder.h"
#include "weft/data/byte_level_json.h"

namespace weft {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

std::vector<std::string> specials(bool end_of_text, std::vector<std::string> added) {
  if (end_of_text) added.insert(added.begin(), kEndOfText);
  return added;
}

// The last position in (0, most] that is not inside a character of UTF-8.
size_t between_characters(std::string_view text, size_t most) {
  const size_t last = std::min(most, text.size());
  size_t at = last;
  while (at > 0 && at < text.size() && last - at < 3 && (text[at] & 0xc0) == 0x80) --at;
  return at > 0 ? at : last;
}

class Bytes : public Vocabulary {
 public:
  int64_t size() const override { return 257; }
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view, bool) const override {
    for (char c : text) ids.push_back(uint8_t(c));
  }
  size_t cut(std::string_view text, size_t most) const override { return between_characters(text, most); }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (int32_t id : ids)
      if (id >= 0 && id < 256) text.push_back(char(id));
    return text;
  }
  std::optional<int32_t> end_of_text() const override { return 256; }
  SpecialIds special_ids() const override { return {.bos_id = {}, .pad_id = {}, .eos_ids = {256}}; }
  std::string kind() const override { return "bytes"; }
  uint64_t hash() const override { return 0; }
  std::string tokenizer_json(const std::vector<std::string>& added) const override {
    std::vector<std::string> bytes;
    for (int b = 0; b < 256; ++b) bytes.push_back(std::string(1, char(b)));
    return byte_level_json(bytes, specials(true, added));
  }
};

class Characters : public Vocabulary {
 public:
  Characters(std::vector<char32_t> characters, bool end_of_text) : characters_(std::move(characters)), end_of_text_(end_of_text) {
    std::sort(characters_.begin(), characters_.end());
    characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
    check(!characters_.empty(), "vocabulary", "there are no characters");
    for (size_t i = 0; i < characters_.size(); ++i) ids_[characters_[i]] = int32_t(i);
  }
  int64_t size() const override { return int64_t(characters_.size()) + end_of_text_; }
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view where, bool) const override {
    for (size_t at = 0; at < text.size();) {
      const size_t start = at;
      const auto found = ids_.find(next_character(text, at, where));
      if (found == ids_.end())
        fail(ErrorCode::invalid_argument, where, "the character '", text.substr(start, at - start), "' at byte ", start,
             " is not in the vocabulary");
      ids.push_back(found->second);
    }
  }
  size_t cut(std::string_view text, size_t most) const override { return between_characters(text, most); }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (int32_t id : ids)
      if (id >= 0 && size_t(id) < characters_.size()) append_utf8(text, characters_[size_t(id)]);
    return text;
  }
  std::optional<int32_t> end_of_text() const override { return end_of_text_ ? std::optional(int32_t(characters_.size())) : std::nullopt; }
  SpecialIds special_ids() const override {
    SpecialIds ids;
    if (end_of_text_) ids.eos_ids = {int64_t(characters_.size())};
    return ids;
  }
  std::string kind() const override { return "characters"; }
  uint64_t hash() const override { return xxh64(std::as_bytes(std::span(characters_)), end_of_text_); }
  std::string tokenizer_json(const std::vector<std::string>& added) const override {
    std::vector<std::string> tokens;
    for (char32_t c : characters_) append_utf8(tokens.emplace_back(), c);
    return byte_level_json(tokens, specials(end_of_text_, added));
  }

 private:
  std::vector<char32_t> characters_;
  const bool end_of_text_;
  std::map<char32_t, int32_t> ids_;
};

class Tokens : public Vocabulary {
 public:
  Tokens(const std::string& path, const std::string& end_token)
      : folder_(path), end_(folder_.separator()), no_separator_(end_token == kNone) {
    if (no_separator_)
      end_.reset();
    else if (!end_token.empty())
      end_ = id_of(end_token);
  }
  int64_t size() const override { return folder_.tokenizer().vocab_size(); }
  const Tokenizer* tokenizer() const override { return &folder_.tokenizer(); }
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view where, bool rest) const override {
    std::vector<int32_t> found = encode_text(folder_.tokenizer(), text, where, false, rest);
    if (ids.empty()) return ids.swap(found);  // no second copy of a long text's ids
    ids.insert(ids.end(), found.begin(), found.end());
  }
  size_t cut(std::string_view text, size_t most) const override { return folder_.tokenizer().cut(text, most); }
  std::string decode(std::span<const int32_t> ids) const override { return folder_.tokenizer().decode(ids); }
  std::span<const int32_t> before() const override { return folder_.tokenizer().before(); }
  std::span<const int32_t> after() const override { return folder_.tokenizer().after(); }
  std::optional<int32_t> end_of_text() const override { return end_; }
  // A text also ends at the token that separates documents of the training data.
  SpecialIds special_ids() const override {
    SpecialIds ids = folder_.special_ids();
    if (end_ && std::find(ids.eos_ids.begin(), ids.eos_ids.end(), *end_) == ids.eos_ids.end()) ids.eos_ids.push_back(*end_);
    return ids;
  }
  std::string kind() const override { return "tokenizer"; }
  uint64_t hash() const override {
    const int32_t end = end_.value_or(-1);
    return xxh64(std::as_bytes(std::span(&end, 1)), folder_.hash());
  }
  std::string tokenizer_json(const std::vector<std::string>& added) const override {
    const std::string json = folder_.json();
    return added.empty() ? json : with_special_tokens(json, folder_.file(), folder_.tokenizer().vocab_size(), added);
  }
  std::string tokenizer_config_json() const override { return read_tokenizer_config_json(folder_.path()); }
  TokenizerFiles files() const override { return read_tokenizer_files(folder_.path()); }
  bool no_separator() const override { return no_separator_; }

 private:
  static constexpr const char* kNone = "none";

  // The id of a token given as the vocabulary spells it, or as a text that encodes to one token.
  int32_t id_of(const std::string& token) const {
    if (const auto id = folder_.tokenizer().id_of(token)) return *id;
    const std::vector<int32_t> ids = folder_.tokenizer().encode(token, false);
    check(ids.size() == 1, "train", "end_token is '", token, "', which encodes to ", ids.size(), " tokens of ", folder_.path(),
          ", expected one");
    return ids[0];
  }

  TokenizerFolder folder_;
  std::optional<int32_t> end_;
  const bool no_separator_;
};

}  // namespace

std::unique_ptr<Vocabulary> byte_vocabulary() { return std::make_unique<Bytes>(); }

std::unique_ptr<Vocabulary> character_vocabulary(std::vector<char32_t> characters, bool end_of_text) {
  return std::make_unique<Characters>(std::move(characters), end_of_text);
}

std::unique_ptr<Vocabulary> tokenizer_vocabulary(const std::string& path, const std::string& end_token) {
  return std::make_unique<Tokens>(path, end_token);
}

std::string Vocabulary::tokenizer_config_json() const {
  const std::string eos = end_of_text() ? join("  \"eos_token\": \"", kEndOfText, "\",\n") : "";
  return join("{\n", eos, "  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false\n}\n");
}

TokenizerFiles Vocabulary::files() const { return tokenizer_files(tokenizer_json(), tokenizer_config_json()); }

bool Vocabulary::ends_separated(std::string_view text, bool conversation) const {
  const auto end = end_of_text();
  if (!end) return false;
  if (!conversation) return !after().empty() && after().back() == *end;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text.ends_with(decode(std::span(&*end, 1)));
}

void Vocabulary::append_beginning(bool first, std::vector<int32_t>& ids, std::string_view where) const {
  append_beginning({.first = first, .separated = ends_separated("", false)}, ids, where);
}

void Vocabulary::append_beginning(const DocumentStart& start, std::vector<int32_t>& ids, std::string_view where) const {
  const auto end = end_of_text();
  const bool first = start.first;
  if (!first && !end && !no_separator())
    fail(ErrorCode::invalid_argument, where,
         "is a second document, but the tokenizer's files name no token to separate documents: tokenizer_config.json has no "
         "eos_token and config.json has no eos_token_id; pass --end-token TOKEN, or --end-token none to join documents without one");
  if (!first && end && !start.separated) ids.push_back(*end);
  if (!start.conversation) ids.insert(ids.end(), before().begin(), before().end());
}

void Vocabulary::append_document(std::string_view text, bool first, std::vector<int32_t>& ids, std::string_view where) const {
  append_beginning(first, ids, where);
  encode(text, ids, where);
  ids.insert(ids.end(), after().begin(), after().end());
}

char32_t next_character(std::string_view text, size_t& at, std::string_view where) {
  const Utf8Step step = utf8_step(text.substr(at));
  if (!step.valid)
    fail(ErrorCode::bad_file, where, "is not UTF-8: ", step.cut ? "a truncated character" : "invalid bytes", " at byte ", at);
  at += step.length;
  return step.code;
}

}  // namespace weft
