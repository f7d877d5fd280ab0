// Between text and ids: a tokenizer, or where none is given bytes, or the characters that occur in a text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  virtual int64_t size() const = 0;
  // Appends the ids of `text` (valid UTF-8). `where` names its file in errors.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view where) const = 0;
  // A place in (0, most] where the text can be cut, so that the ids of the two parts are those of the whole; 0: none is
  // known. The text need not be UTF-8.
  virtual size_t cut(std::string_view text, size_t most) const = 0;
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // What stands between two documents; none where the vocabulary has nothing for it.
  virtual std::optional<int32_t> end_of_text() const = 0;
  // "bytes", "characters" or "tokenizer", and a hash of everything that makes two of a kind differ.
  virtual std::string kind() const = 0;
  virtual uint64_t hash() const = 0;
  // A tokenizer.json that gives the same ids, in this library and in others.
  virtual std::string tokenizer_json() const = 0;
};

// 256 bytes, and 256 for the end of a text.
std::unique_ptr<Vocabulary> byte_vocabulary();

// One id per character, in the order of their code points. Encoding another character is an error that names it.
std::unique_ptr<Vocabulary> character_vocabulary(std::vector<char32_t> characters);

// The tokenizer.json of a folder (or the file itself).
std::unique_ptr<Vocabulary> tokenizer_vocabulary(const std::string& path);

// The next code point at `at`, which moves past it. Throws bad_file naming `where` and the byte where text is not UTF-8.
char32_t next_character(std::string_view text, size_t& at, std::string_view where);

}  // namespace weft
