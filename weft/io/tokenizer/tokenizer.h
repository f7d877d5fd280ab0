// Text to token ids and back: tokenizer.json with byte-level BPE, as the `tokenizers` library reads it. What it cannot
// do as that library does is refused by name when the file is read.
//
//   const Tokenizer tokenizer = Tokenizer::load("model_folder");
//   std::vector<int32_t> ids = tokenizer.encode("Hello world");
//   std::string text = tokenizer.decode(ids);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/tokenizer/tokenizer_config.h"

namespace weft {

class Tokenizer {
 public:
  // A tokenizer.json, or a folder that has one; tokenizer_config.json and special_tokens_map.json beside it count. Throws
  // bad_file naming the file, the place in it and what was expected; unsupported, naming the option, for what this library
  // does not do.
  static Tokenizer load(const std::string& path);
  static Tokenizer parse(std::string_view json, const std::string& file = "tokenizer.json", const TokenizerConfig& config = {});

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `add_special`: with what the template puts around the text (a BOS, where there is one). Special tokens that the text
  // spells out are found either way. The text must be UTF-8. A character that the vocabulary lacks, where there is no
  // unk_token, is an error that names it; `tokenizers` leaves out such bytes. Any number of threads may encode at once.
  enum class Unknown { refused, left_out };
  std::vector<int32_t> encode(std::string_view text, bool add_special = true, Unknown unknown = Unknown::refused) const;

  // The beginning of a text: with what stands before it, without what ends it.
  std::vector<int32_t> encode_prompt(std::string_view text) const;

  // What encode() puts around a text: the template of tokenizer.json, as add_bos_token and add_eos_token change it.
  std::span<const int32_t> before() const;
  std::span<const int32_t> after() const;
  // The tokens that the files name; none where they name none.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;

  // A place in (0, most] where the text can be cut, so that the ids of the two parts (without what the template adds) are
  // those of the whole; 0 where none is known. Byte-level BPE with the patterns of GPT-2, Llama 3, Qwen and GPT-4o has many.
  size_t cut(std::string_view text, size_t most) const;

  // Ids that no token has are left out; bytes that are no UTF-8 come out as U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // Tokens as the vocabulary spells them ("Ġworld"); empty for an id that no token has.
  std::vector<std::string> pieces(std::span<const int32_t> ids) const;

  int32_t vocab_size() const;  // one more than the largest id
  std::optional<int32_t> id_of(std::string_view token) const;
  std::string_view token_of(int32_t id) const;  // empty for an id that no token has
  std::string_view bytes_of(int32_t id) const;  // what it adds to the text, perhaps a part of a character
  bool is_special(int32_t id) const;

  struct Parts;  // what the file says (weft/io/tokenizer/parts.h)

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The ids of a text that stands in a file: an error begins with `where`, the file and perhaps the line.
std::vector<int32_t> encode_text(const Tokenizer& tokenizer, std::string_view text, std::string_view where, bool add_special = true);

// Decoding as tokens come: text comes out in whole characters, and all of it together is what decode() gives. The
// tokenizer must outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool skip_special = false) : tokenizer_(tokenizer), skip_special_(skip_special) {}

  std::string push(int32_t id);
  std::string finish();  // what was held back; the decoder may then be used anew

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  std::string pending_;
};

}  // namespace weft
