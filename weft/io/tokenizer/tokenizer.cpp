#include "weft/io/tokenizer/tokenizer.h"

#include <filesystem>
#include <mutex>

#include "weft/io/mapped_file.h"
#include "weft/io/tokenizer/cuts.h"
#include "weft/io/recognise.h"
#include "weft/io/tokenizer/parts.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

// Working memory of encode(). Kept between calls for its cache of words.
struct Scratch {
  PreTokenizer::Scratch pre_tokenizer;
  Bpe::Scratch bpe;
  std::vector<AddedTokens::Part> raw, normalized;
};

}  // namespace

struct Tokenizer::State {
  explicit State(Parts from) : parts(std::move(from)) {}

  std::unique_ptr<Scratch> borrow() {
    std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Scratch>();
    auto scratch = std::move(idle.back());
    idle.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(scratch));
  }

  void encode_words(std::string_view text, Edge edge, Scratch& scratch, std::vector<int32_t>& ids) const {
    parts.pre_tokenizer.split(text, edge, scratch.pre_tokenizer, [&](std::string_view word) { parts.bpe.encode(word, ids, scratch.bpe); });
  }
  void encode_normalized(std::string_view text, Edge edge, Scratch& scratch, std::vector<int32_t>& ids) const {
    if (parts.normalized.empty()) return encode_words(text, edge, scratch, ids);
    parts.normalized.find(text, scratch.normalized, scratch.pre_tokenizer.regex);
    for (const auto& part : scratch.normalized) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        encode_words(text.substr(part.begin, part.end - part.begin), part.begin == 0 ? edge : Edge::inner, scratch, ids);
    }
  }
  // `edge`: the beginning of the text.
  void encode_text(std::string_view text, Edge edge, Scratch& scratch, std::vector<int32_t>& ids) const {
    parts.raw.find(text, scratch.raw, scratch.pre_tokenizer.regex);
    for (const auto& part : scratch.raw) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const std::string_view piece = text.substr(part.begin, part.end - part.begin);
      const Edge begins = part.begin == 0 ? edge : Edge::inner;
      if (parts.normalizer.keeps(piece)) {
        encode_normalized(piece, begins, scratch, ids);
      } else {
        const auto normal = parts.normalizer.apply(piece, scratch.pre_tokenizer.regex, begins == Edge::cut);
        encode_normalized(normal.text, begins == Edge::start && !normal.front_kept ? Edge::inner : begins, scratch, ids);
      }
    }
  }
  void encode(std::string_view text, Edge edge, bool leave_out, std::vector<int32_t>& ids) {
    const size_t wrong = first_invalid_utf8(text);
    check(wrong == text.size(), "tokenizer", "the text is not UTF-8 at byte ", wrong);
    auto scratch = borrow();
    scratch->bpe.leave_out = leave_out;
    encode_text(text, edge, *scratch, ids);
    give_back(std::move(scratch));
  }

  const Parts parts;
  std::mutex mutex;
  std::vector<std::unique_ptr<Scratch>> idle;
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::string& path) {
  std::error_code ignored;
  const std::string file = std::filesystem::is_directory(path, ignored) ? expected_in_folder(path, "tokenizer.json") : path;
  const MappedFile mapped(file);
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return parse({reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()}, file,
               read_tokenizer_config(folder.empty() ? "." : folder));
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& file, const TokenizerConfig& config) {
  const Json document = parse_json(file, json);
  Parts parts = read_tokenizer(JsonNode(file, document));
  apply_config(config, file, parts);
  prepare_tokens(parts);
  return Tokenizer(std::make_unique<State>(std::move(parts)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special, Unknown unknown) const {
  std::vector<int32_t> ids;
  if (add_special) ids = state_->parts.before;
  state_->encode(text, Edge::start, unknown == Unknown::left_out, ids);
  if (add_special) ids.insert(ids.end(), state_->parts.after.begin(), state_->parts.after.end());
  return ids;
}

std::vector<int32_t> Tokenizer::encode_rest(std::string_view text) const {
  std::vector<int32_t> ids;
  state_->encode(text, Edge::cut, false, ids);
  return ids;
}

size_t Tokenizer::cut(std::string_view text, size_t most) const { return state_->parts.cuts.last(text, most, state_->parts.bpe); }
const std::vector<std::string>& Tokenizer::ignored() const { return state_->parts.ignored; }
std::string Tokenizer::kind() const { return state_->parts.pre_tokenizer.byte_level() ? "byte-level BPE" : "BPE of characters"; }

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  std::vector<int32_t> ids = encode(text, false);
  ids.insert(ids.begin(), before().begin(), before().end());
  return ids;
}

std::span<const int32_t> Tokenizer::before() const { return state_->parts.before; }
std::span<const int32_t> Tokenizer::after() const { return state_->parts.after; }
std::optional<int32_t> Tokenizer::bos_id() const { return state_->parts.bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return state_->parts.eos_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return state_->parts.pad_id; }

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  Decoder::Stream stream(state_->parts.decoder);
  std::string text;
  for (const int32_t id : ids)
    if (!token_of(id).empty() && !(skip_special && is_special(id))) stream.push(state_->parts.tokens[size_t(id)].prepared, text);
  stream.finish(text);
  return text;
}

std::vector<std::string> Tokenizer::pieces(std::span<const int32_t> ids) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.emplace_back(token_of(id));
  return pieces;
}

int32_t Tokenizer::vocab_size() const { return int32_t(state_->parts.tokens.size()); }

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const auto found = state_->parts.ids.find(token);
  if (found == state_->parts.ids.end()) return std::nullopt;
  return found->second;
}

std::string_view Tokenizer::token_of(int32_t id) const {
  return id < 0 || id >= vocab_size() ? std::string_view() : state_->parts.tokens[size_t(id)].spelling;
}
std::string_view Tokenizer::bytes_of(int32_t id) const {
  return id < 0 || id >= vocab_size() ? std::string_view() : state_->parts.tokens[size_t(id)].bytes;
}
bool Tokenizer::is_special(int32_t id) const { return id >= 0 && id < vocab_size() && state_->parts.tokens[size_t(id)].special; }

std::vector<int32_t> encode_text(const Tokenizer& tokenizer, std::string_view text, std::string_view where, bool add_special, bool rest) {
  try {
    return rest ? tokenizer.encode_rest(text) : tokenizer.encode(text, add_special);
  } catch (const Error& error) {
    fail(error.code(), where, error.what());
  }
}

struct StreamingDecoder::State {
  const Tokenizer::Parts& parts;
  const bool skip_special;
  Decoder::Stream stream{parts.decoder};
};

StreamingDecoder::StreamingDecoder(const Tokenizer& tokenizer, bool skip_special)
    : state_(new State{tokenizer.state_->parts, skip_special}) {}
StreamingDecoder::StreamingDecoder(StreamingDecoder&&) noexcept = default;
StreamingDecoder::~StreamingDecoder() = default;

std::string StreamingDecoder::push(int32_t id) {
  std::string text;
  if (id < 0 || size_t(id) >= state_->parts.tokens.size()) return text;
  const Token& token = state_->parts.tokens[size_t(id)];
  if (!token.spelling.empty() && !(state_->skip_special && token.special)) state_->stream.push(token.prepared, text);
  return text;
}

std::string StreamingDecoder::finish() {
  std::string text;
  state_->stream.finish(text);
  return text;
}

}  // namespace weft
