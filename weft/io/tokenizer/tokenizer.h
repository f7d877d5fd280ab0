// Text to token ids and back: tokenizer.json with BPE, byte-level (GPT-2, Llama 3, Qwen) or of characters (Llama 2, Mistral, Gemma, Phi-3),
// with the same results as the `tokenizers` library. Reading a file throws for any feature that would differ, by name.
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
  // Loads a tokenizer.json, or the one in a folder, with tokenizer_config.json and special_tokens_map.json beside it. Throws bad_file with
  // the file, the path in it and what was expected; unsupported, naming the option, for features that are not implemented.
  static Tokenizer load(const std::string& path);
  static Tokenizer parse(std::string_view json, const std::string& file = "tokenizer.json", const TokenizerConfig& config = {});

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `add_special`: add the template's tokens around the text (BOS, if there is one). Special tokens spelled out in the text are matched
  // either way. The text must be UTF-8. Without an unk_token, a character missing from the vocabulary is an error that names it;
  // `tokenizers` drops such bytes. Any number of threads may encode at once.
  enum class Unknown { refused, left_out };
  std::vector<int32_t> encode(std::string_view text, bool add_special = true, Unknown unknown = Unknown::refused) const;

  // Encodes the beginning of a text: with the template's tokens before it, without those after it.
  std::vector<int32_t> encode_prompt(std::string_view text) const;

  // The tokens encode() adds around a text: the template of tokenizer.json, modified by add_bos_token and add_eos_token.
  std::span<const int32_t> before() const;
  std::span<const int32_t> after() const;
  // The special tokens named in the files; empty if not named.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;

  // A place in (0, most] where the text can be cut so that the ids of the two parts (without the template's) are those of the whole text;
  // 0 if none is known. There are many in the tokenizers of the families above (weft/io/tokenizer/cuts.h). The second part is encoded by
  // encode_rest(), for encode() may put a space before the first word of a text.
  size_t cut(std::string_view text, size_t most) const;
  std::vector<int32_t> encode_rest(std::string_view text) const;

  // Members of tokenizer.json that are set and do nothing here: truncation, padding.
  const std::vector<std::string>& ignored() const;
  // "byte-level BPE" or "BPE of characters".
  std::string kind() const;

  // Unknown ids are left out; invalid UTF-8 becomes U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // Tokens as spelled in the vocabulary ("Ġworld"); empty for an unknown id.
  std::vector<std::string> pieces(std::span<const int32_t> ids) const;

  int32_t vocab_size() const;  // the largest id plus one
  std::optional<int32_t> id_of(std::string_view token) const;
  std::string_view token_of(int32_t id) const;  // empty for an unknown id
  std::string_view bytes_of(int32_t id) const;  // the bytes it decodes to within a text, possibly part of a character
  bool is_special(int32_t id) const;

  struct Parts;  // contents of the file (weft/io/tokenizer/parts.h)

 private:
  friend class StreamingDecoder;
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The ids of a text from a file: an error starts with `where`, the file and possibly the line. `rest`: by encode_rest().
std::vector<int32_t> encode_text(const Tokenizer& tokenizer, std::string_view text, std::string_view where, bool add_special = true,
                                 bool rest = false);

// Decodes a stream of tokens: returns text in whole characters as soon as later tokens cannot change it; the concatenation equals decode()
// of all ids. The tokenizer must outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  StreamingDecoder(StreamingDecoder&&) noexcept;
  ~StreamingDecoder();

  std::string push(int32_t id);
  std::string finish();  // returns the held-back rest and resets the decoder

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
