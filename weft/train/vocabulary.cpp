#include "weft/train/vocabulary.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/io/mapped_file.h"
#include "weft/io/tokenizer/tokenizer.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/train/byte_level_json.h"

namespace weft {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

// The last place in (0, most] where no character is cut in two, as far as the text is UTF-8.
size_t between_characters(std::string_view text, size_t most) {
  const size_t last = std::min(most, text.size());
  size_t at = last;
  while (at > 0 && at < text.size() && last - at < 3 && (text[at] & 0xc0) == 0x80) --at;
  return at > 0 ? at : last;
}

class Bytes : public Vocabulary {
 public:
  int64_t size() const override { return 257; }
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view) const override {
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
  std::string kind() const override { return "bytes"; }
  uint64_t hash() const override { return 0; }
  std::string tokenizer_json() const override {
    std::vector<std::string> bytes;
    for (int b = 0; b < 256; ++b) bytes.push_back(std::string(1, char(b)));
    return byte_level_json(bytes, kEndOfText);
  }
};

class Characters : public Vocabulary {
 public:
  explicit Characters(std::vector<char32_t> characters) : characters_(std::move(characters)) {
    std::sort(characters_.begin(), characters_.end());
    characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
    check(!characters_.empty(), "vocabulary", "there are no characters");
    for (size_t i = 0; i < characters_.size(); ++i) ids_[characters_[i]] = int32_t(i);
  }
  int64_t size() const override { return int64_t(characters_.size()); }
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view where) const override {
    for (size_t at = 0; at < text.size();) {
      const size_t start = at;
      const auto found = ids_.find(next_character(text, at, where));
      if (found == ids_.end())
        fail(ErrorCode::invalid_argument, where, "the character '", text.substr(start, at - start), "' at byte ", start, " is not in the vocabulary");
      ids.push_back(found->second);
    }
  }
  size_t cut(std::string_view text, size_t most) const override { return between_characters(text, most); }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (int32_t id : ids)
      if (id >= 0 && id < size()) append_utf8(text, characters_[size_t(id)]);
    return text;
  }
  std::optional<int32_t> end_of_text() const override {
    const auto newline = ids_.find(U'\n');
    return newline == ids_.end() ? std::nullopt : std::optional(newline->second);
  }
  std::string kind() const override { return "characters"; }
  uint64_t hash() const override { return xxh64(std::as_bytes(std::span(characters_))); }
  std::string tokenizer_json() const override {
    std::vector<std::string> tokens;
    for (char32_t c : characters_) append_utf8(tokens.emplace_back(), c);
    return byte_level_json(tokens);
  }

 private:
  std::vector<char32_t> characters_;
  std::map<char32_t, int32_t> ids_;
};

class Tokens : public Vocabulary {
 public:
  explicit Tokens(const std::string& path) : json_(text_of(path)), tokenizer_(Tokenizer::parse(json_, path)) {
    for (const char* name : {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>"})
      if (!end_) end_ = tokenizer_.id_of(name);
  }
  int64_t size() const override { return tokenizer_.vocab_size(); }
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view where) const override {
    std::vector<int32_t> found = encode_text(tokenizer_, text, where, false);
    if (ids.empty()) return ids.swap(found);  // a long text's ids are not held twice
    ids.insert(ids.end(), found.begin(), found.end());
  }
  size_t cut(std::string_view text, size_t most) const override { return tokenizer_.cut(text, most); }
  std::string decode(std::span<const int32_t> ids) const override { return tokenizer_.decode(ids); }
  std::optional<int32_t> end_of_text() const override { return end_; }
  std::string kind() const override { return "tokenizer"; }
  uint64_t hash() const override { return xxh64(std::as_bytes(std::span(json_))); }
  std::string tokenizer_json() const override { return json_; }

 private:
  static std::string text_of(const std::string& path) {
    const bool folder = std::filesystem::is_directory(path);
    const MappedFile file(folder ? path + "/tokenizer.json" : path);
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  std::string json_;
  Tokenizer tokenizer_;
  std::optional<int32_t> end_;
};

}  // namespace

std::unique_ptr<Vocabulary> byte_vocabulary() { return std::make_unique<Bytes>(); }

std::unique_ptr<Vocabulary> character_vocabulary(std::vector<char32_t> characters) { return std::make_unique<Characters>(std::move(characters)); }

std::unique_ptr<Vocabulary> tokenizer_vocabulary(const std::string& path) { return std::make_unique<Tokens>(path); }

char32_t next_character(std::string_view text, size_t& at, std::string_view where) {
  const Utf8Step step = utf8_step(text.substr(at));
  if (!step.valid) fail(ErrorCode::bad_file, where, "is not UTF-8: ", step.cut ? "a character that is cut short" : "bytes that are no character", " at byte ", at);
  at += step.length;
  return step.code;
}

}  // namespace weft
