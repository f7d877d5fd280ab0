// Between text and ids: a tokenizer, or where none is given bytes, or the characters that occur in a text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/config_json.h"

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
  // What stands before and after the text of every document: the tokenizer's template.
  virtual std::span<const int32_t> before() const { return {}; }
  virtual std::span<const int32_t> after() const { return {}; }
  // The token between two documents; none where the vocabulary has nothing for it.
  virtual std::optional<int32_t> end_of_text() const = 0;
  // The tokens of a model that reads these ids.
  virtual SpecialIds special_ids() const = 0;
  // "bytes", "characters" or "tokenizer", and a hash of everything that makes two of a kind differ.
  virtual std::string kind() const = 0;
  virtual uint64_t hash() const = 0;
  // A tokenizer.json that gives the same ids, in this library and in others.
  virtual std::string tokenizer_json() const = 0;
  // Writes the tokenizer, whole, into a model folder.
  virtual void write_files(const std::string& folder) const;

  // Appends a document after those that are there: the separator, unless it is the first, and the text with what stands
  // around it. Throws, saying what to pass, where there is a second document and nothing to stand between the two.
  void append_document(std::string_view text, bool first, std::vector<int32_t>& ids, std::string_view where) const;
  // What append_document puts before the text of a document.
  void append_beginning(bool first, std::vector<int32_t>& ids, std::string_view where) const;

 protected:
  virtual bool runs_together() const { return false; }  // documents follow each other with nothing between them
};

// 256 bytes, and 256 for the end of a text.
std::unique_ptr<Vocabulary> byte_vocabulary();

// One id per character, in the order of their code points, and with `end_of_text` one more for the end of a text. Encoding
// another character is an error that names it.
std::unique_ptr<Vocabulary> character_vocabulary(std::vector<char32_t> characters, bool end_of_text = false);

// The tokenizer.json of a folder (or the file itself) with the files beside it. `end_token`: the token between documents,
// where it is not the one that the files name; "none": documents run together.
std::unique_ptr<Vocabulary> tokenizer_vocabulary(const std::string& path, const std::string& end_token = "");

// The next code point at `at`, which moves past it. Throws bad_file naming `where` and the byte where text is not UTF-8.
char32_t next_character(std::string_view text, size_t& at, std::string_view where);

}  // namespace weft
