#include "weft/io/tokenizer/decoder.h"

#include <utility>

#include "weft/io/tokenizer/byte_alphabet.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr const char* kInvalid = "\xef\xbf\xbd";  // U+FFFD

std::string bytes_of_letters(std::string_view token) {
  // A token with a character outside the alphabet is taken literally.
  return bytes_spelled(token).value_or(std::string(token));
}

// Removes up to `most` characters `content` from the front of `text`; returns how many.
size_t remove_front(std::string_view& text, char32_t content, size_t most) {
  size_t count = 0;
  for (; count < most && !text.empty(); ++count) {
    const Utf8Step first = utf8_step(text);
    if (first.code != content) break;
    text.remove_prefix(first.length);
  }
  return count;
}

// The length in bytes of `text` without up to `most` characters `content` at its end.
size_t without_back(std::string_view text, char32_t content, size_t most) {
  for (; most > 0 && !text.empty(); --most) {
    const std::string_view last = last_character(text, text.size());
    if (utf8_step(last).code != content) break;
    text.remove_suffix(last.size());
  }
  return text.size();
}

std::string with_spaces(std::string_view text, std::string_view mark, std::string_view space) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, done)) {
    out.append(text, done, at - done).append(space);
    done = at + mark.size();
  }
  return out.append(text, done);
}

}  // namespace

std::optional<uint8_t> byte_of_token(std::string_view token) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>' || digit(token[3]) < 0 || digit(token[4]) < 0) return std::nullopt;
  return uint8_t(digit(token[3]) * 16 + digit(token[4]));
}

Decoder::Decoder(std::vector<Step> steps) : steps_(std::move(steps)) {
  const auto alone = [](const Step& step) {
    return std::holds_alternative<Replacement>(step) || std::holds_alternative<decode::Strip>(step);
  };
  while (ready_ < steps_.size() && alone(steps_[ready_])) ++ready_;
  bytes_ready_ = ready_ < steps_.size() && std::holds_alternative<decode::ByteLevel>(steps_[ready_]);
}

std::string Decoder::prepared(std::string_view token, Regex::Scratch& scratch) const {
  std::string text(token);
  for (size_t i = 0; i < ready_; ++i) {
    std::string out;
    if (const auto* replacement = std::get_if<Replacement>(&steps_[i])) {
      replacement->apply(text, scratch, out);
    } else {
      const auto& strip = std::get<decode::Strip>(steps_[i]);
      std::string_view rest = text;
      remove_front(rest, strip.content, strip.start);
      out = rest.substr(0, without_back(rest, strip.content, strip.stop));
    }
    text = std::move(out);
  }
  return bytes_ready_ ? bytes_of_letters(text) : text;
}

std::string Decoder::bytes_of(std::string_view prepared) const {
  std::string bytes(prepared);
  for (size_t i = ready_ + bytes_ready_; i < steps_.size(); ++i) {
    if (std::holds_alternative<decode::ByteFallback>(steps_[i])) {
      if (const auto byte = byte_of_token(bytes)) bytes.assign(1, char(*byte));
    } else if (const auto* marks = std::get_if<decode::Marks>(&steps_[i])) {
      bytes = with_spaces(bytes, marks->mark, " ");
    } else if (std::holds_alternative<decode::ByteLevel>(steps_[i])) {
      bytes = bytes_of_letters(bytes);
    }
  }
  return bytes;
}

void Decoder::Stream::push(std::string_view prepared, std::string& out) { feed(decoder_->ready_, {prepared, true, true}, out); }

void Decoder::Stream::feed(size_t step, Piece piece, std::string& out) {
  if (step == decoder_->steps_.size()) {
    out += piece.text;
    return;
  }
  std::visit([&](const auto& taker) { take(step, taker, piece, out); }, decoder_->steps_[step]);
}

// Collects the pieces of a token; true once `piece` is the whole token.
bool Decoder::Stream::collect(size_t step, Piece& piece) {
  if (piece.begins && piece.ends) return true;
  std::string& token = states_[step].token;
  if (piece.begins) token.clear();
  token += piece.text;
  if (!piece.ends) return false;
  piece = {token, true, true};
  return true;
}

void Decoder::Stream::take(size_t step, const Replacement& replacement, Piece piece, std::string& out) {
  if (!collect(step, piece)) return;
  std::string replaced;
  replacement.apply(piece.text, scratch_, replaced);
  feed(step + 1, {replaced, true, true}, out);
}

void Decoder::Stream::take(size_t step, const decode::ByteFallback&, Piece piece, std::string& out) {
  if (!collect(step, piece)) return;
  if (const auto byte = byte_of_token(piece.text)) {
    states_[step].held += char(*byte);
    return;
  }
  release_bytes(step, out);
  feed(step + 1, piece, out);
}

void Decoder::Stream::release_bytes(size_t step, std::string& out) {
  const std::string bytes = std::exchange(states_[step].held, {});
  if (bytes.empty()) return;
  if (first_invalid_utf8(bytes) == bytes.size()) return feed(step + 1, {bytes, true, true}, out);
  for (size_t i = 0; i < bytes.size(); ++i) feed(step + 1, {kInvalid, true, true}, out);
}

void Decoder::Stream::take(size_t step, const decode::Fuse&, Piece piece, std::string& out) {
  feed(step + 1, {piece.text, !std::exchange(states_[step].opened, true), false}, out);
}

// `held` has the characters `content` that may be the last of the token.
void Decoder::Stream::take(size_t step, const decode::Strip& strip, Piece piece, std::string& out) {
  State& state = states_[step];
  if (piece.begins) {
    state.removed = 0;
    state.leading = true;
    state.held.clear();
  }
  std::string_view text = piece.text;
  if (state.leading) {
    state.removed += remove_front(text, strip.content, strip.start - state.removed);
    state.leading = text.empty() && state.removed < strip.start;
  }
  std::string all = std::exchange(state.held, {}).append(text);
  const size_t sure = without_back(all, strip.content, strip.stop);
  if (!piece.ends) state.held = all.substr(sure);
  feed(step + 1, {std::string_view(all).substr(0, sure), piece.begins, piece.ends}, out);
}

void Decoder::Stream::take(size_t step, const decode::Marks& marks, Piece piece, std::string& out) {
  State& state = states_[step];
  const std::string text = with_spaces(piece.text, marks.mark, marks.remove_first && !state.later_token ? "" : " ");
  if (piece.ends) state.later_token = true;
  feed(step + 1, {text, piece.begins, piece.ends}, out);
}

// `held` has the beginning of a character.
void Decoder::Stream::take(size_t step, const decode::ByteLevel&, Piece piece, std::string& out) {
  if (!collect(step, piece)) return;
  State& state = states_[step];
  step == decoder_->ready_ ? state.held.append(piece.text) : state.held.append(bytes_of_letters(piece.text));
  std::string text;
  drain_utf8(state.held, text, /*more_follows=*/true);
  feed(step + 1, {text, !std::exchange(state.opened, true), false}, out);
}

void Decoder::Stream::finish(std::string& out) {
  for (size_t step = decoder_->ready_; step < states_.size(); ++step) {
    State& state = states_[step];
    std::string text;
    if (std::holds_alternative<decode::ByteFallback>(decoder_->steps_[step])) {
      release_bytes(step, out);
    } else if (std::holds_alternative<decode::Fuse>(decoder_->steps_[step])) {
      feed(step + 1, {"", !state.opened, true}, out);
    } else if (std::holds_alternative<decode::ByteLevel>(decoder_->steps_[step])) {
      drain_utf8(state.held, text, /*more_follows=*/false);
      feed(step + 1, {text, !state.opened, true}, out);
    }
  }
  states_.assign(states_.size(), State());
}

}  // namespace weft
