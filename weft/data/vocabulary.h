// The mapping between text and ids: a tokenizer, the 256 bytes, or the characters that occur in a text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/config_json.h"
#include "weft/models/tokenizer_files.h"

namespace weft {

class Tokenizer;

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  virtual int64_t size() const = 0;
  // Appends the ids of `text` (valid UTF-8). `where` names its file in errors. `rest`: it follows a cut().
  virtual void encode(std::string_view text, std::vector<int32_t>& ids, std::string_view where, bool rest = false) const = 0;
  // A position in (0, most] at which the text can be split without changing its ids; 0: none is known. The text need not be
  // UTF-8.
  virtual size_t cut(std::string_view text, size_t most) const = 0;
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // The tokenizer that gives these ids; null for characters and bytes without a chat template.
  virtual const Tokenizer* tokenizer() const { return nullptr; }
  // The ids that the tokenizer's template puts before and after every document.
  virtual std::span<const int32_t> before() const { return {}; }
  virtual std::span<const int32_t> after() const { return {}; }
  // The token between two documents, if the vocabulary has one.
  virtual std::optional<int32_t> end_of_text() const = 0;
  // The special tokens of a model that reads these ids.
  virtual SpecialIds special_ids() const = 0;
  // kind(): "bytes", "characters" or "tokenizer". hash(): differs between two vocabularies of one kind that give other ids.
  virtual std::string kind() const = 0;
  virtual uint64_t hash() const = 0;
  // A tokenizer.json that gives the same ids in any library. `added`: further special tokens, with the ids after its own.
  virtual std::string tokenizer_json(const std::vector<std::string>& added) const = 0;
  std::string tokenizer_json() const { return tokenizer_json({}); }
  // The tokenizer_config.json beside it, with all special tokens that the files name.
  virtual std::string tokenizer_config_json() const;
  // All files of the tokenizer, to be written into a model folder.
  virtual TokenizerFiles files() const;
  void write_files(const std::string& folder) const { write_tokenizer(files(), folder); }
  virtual bool no_separator() const { return false; }  // documents follow each other directly

  // Appends a document: the separator (unless it is the first document), before(), the ids of the text, after(). Throws, naming
  // the flag to pass, for a second document when there is no separator.
  void append_document(std::string_view text, bool first, std::vector<int32_t>& ids, std::string_view where) const;
  // Appends only what append_document puts before the text.
  void append_beginning(bool first, std::vector<int32_t>& ids, std::string_view where) const;

  // The same for a document after one that ended with the separator itself (`separated`), and for a conversation: the chat template has
  // written all tokens around it, so before() and after() are left out.
  struct DocumentStart {
    bool first, separated = false, conversation = false;
  };
  void append_beginning(const DocumentStart& start, std::vector<int32_t>& ids, std::string_view where) const;
  // Whether what follows this document needs no separator: after() is one, or a conversation ends with one.
  bool ends_separated(std::string_view text, bool conversation) const;
};

// Ids 0 to 255 are bytes, 256 is the end of a text.
std::unique_ptr<Vocabulary> byte_vocabulary();

// One id per character, in the order of code points, and with `end_of_text` one more for the end of a text. Encoding any other
// character throws and names it.
std::unique_ptr<Vocabulary> character_vocabulary(std::vector<char32_t> characters, bool end_of_text = false);

// The tokenizer.json of a folder (or the file itself) with the files beside it. `end_token`: the token between documents; empty:
// the one that the files name; "none": no token, documents follow each other directly.
std::unique_ptr<Vocabulary> tokenizer_vocabulary(const std::string& path, const std::string& end_token = "");

// Reads the code point at `at` and moves `at` past it. Throws bad_file naming `where` and the byte if the text is not UTF-8.
char32_t next_character(std::string_view text, size_t& at, std::string_view where);

}  // namespace weft
