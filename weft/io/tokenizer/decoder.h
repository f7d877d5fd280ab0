// Tokens to text: a chain of steps, each of which turns a list of tokens into another; the text is the last list, joined.
//
// The chain runs on a stream. A token may pass a step in several pieces (Fuse makes one token of all), and a step holds back only what
// later tokens can change, so text comes out as early as it is certain and is the same as for all tokens at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/io/tokenizer/replacement.h"

namespace weft {

namespace decode {

// A run of the tokens <0x00> to <0xFF> becomes the text of these bytes, or U+FFFD for each byte if that is not UTF-8.
struct ByteFallback {};
// All tokens become one.
struct Fuse {};
// Removes up to `start` characters `content` from the front of each token and up to `stop` from its end.
struct Strip {
  char32_t content = ' ';
  size_t start = 0, stop = 0;
};
// A mark becomes a space; in the first token it is removed.
struct Marks {
  std::string mark;
  bool remove_first = true;
};
// Tokens spell bytes with the letters of weft/io/tokenizer/byte_alphabet.h; all become one token, with U+FFFD for invalid UTF-8.
struct ByteLevel {};

}  // namespace decode

class Decoder {
 public:
  using Step = std::variant<Replacement, decode::ByteFallback, decode::Fuse, decode::Strip, decode::Marks, decode::ByteLevel>;
  Decoder() = default;
  explicit Decoder(std::vector<Step> steps);

  // A token as the stream takes it: the steps at the front of the chain that need only the token are applied in advance.
  std::string prepared(std::string_view token, Regex::Scratch& scratch) const;

  // The bytes a prepared token contributes to a text, possibly part of a character: as in the middle of a text, so nothing is removed from
  // the ends.
  std::string bytes_of(std::string_view prepared) const;

  class Stream {
   public:
    explicit Stream(const Decoder& decoder) : decoder_(&decoder), states_(decoder.steps_.size()) {}
    // Appends the text that is certain to `out`.
    void push(std::string_view prepared, std::string& out);
    // Appends the rest, and starts again.
    void finish(std::string& out);

   private:
    struct State {
      std::string token;         // pieces of the token that is coming in
      std::string held;          // bytes or text held back
      size_t removed = 0;        // characters removed from the front of the token
      bool leading = true;       // more characters may be
      bool opened = false;       // the token that is going out has begun
      bool later_token = false;  // the first token is over
    };
    struct Piece {
      std::string_view text;
      bool begins, ends;  // the token
    };
    void feed(size_t step, Piece piece, std::string& out);
    void take(size_t step, const Replacement& replacement, Piece piece, std::string& out);
    void take(size_t step, const decode::ByteFallback&, Piece piece, std::string& out);
    void take(size_t step, const decode::Fuse&, Piece piece, std::string& out);
    void take(size_t step, const decode::Strip& strip, Piece piece, std::string& out);
    void take(size_t step, const decode::Marks& marks, Piece piece, std::string& out);
    void take(size_t step, const decode::ByteLevel&, Piece piece, std::string& out);
    void release_bytes(size_t step, std::string& out);
    bool collect(size_t step, Piece& piece);

    const Decoder* decoder_;
    std::vector<State> states_;
    Regex::Scratch scratch_;
  };

 private:
  friend class Stream;
  std::vector<Step> steps_;
  size_t ready_ = 0;          // steps that prepared() applies
  bool bytes_ready_ = false;  // prepared tokens are bytes: the first step of the stream is ByteLevel
};

// The byte of a token such as <0x0A>; nullopt for other tokens.
std::optional<uint8_t> byte_of_token(std::string_view token);

}  // namespace weft
