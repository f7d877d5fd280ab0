#include "weft/generate/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "weft/base/check.h"
#include "weft/generate/sampled_sequence.h"

namespace weft {
namespace {

constexpr const char* kWhere = "generate";

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

KvCache empty_cache(const Model& model, const EngineOptions& options) {
  check(options.sequences >= 1, kWhere, "an engine for ", options.sequences, " sequences has no place for one");
  check(options.prompt_chunk >= 1, kWhere, "prompt_chunk is ", options.prompt_chunk, ", expected 1 or more");
  check(options.positions >= 0, kWhere, "positions is ", options.positions, ", expected 0 (the model's context) or more");
  check(options.kept >= 0, kWhere, "kept is ", options.kept, ", expected 0 or more sequences");
  KvCache cache = model.make_cache(options.sequences, options.positions > 0 ? options.positions : model.config().max_positions);
  while (cache.batch() > 0) cache.remove(cache.batch() - 1);
  return cache;
}

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::eos: return "eos";
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::stopped: return "stopped";
  }
  return "no such reason";
}

double GenerateTimes::tokens_per_second() const {
  if (step_tokens > 0) return double(step_tokens) / step_seconds;
  return prompts > 0 ? double(prompts) / prompt_seconds : 0;
}

struct Engine::Sequence {
  uint64_t number;
  SampledSequence sampled;
  size_t read = 0;  // tokens of the prompt that are in the cache
};

Engine::Engine(const Model& model, const EngineOptions& options)
    : model_(model), options_(options), cache_(empty_cache(model, options)), decode_step_(model, cache_), kept_(size_t(options.kept)) {
  if (options.kept > 0) kept_cache_ = model.make_cache(options.kept, cache_.capacity());
}
Engine::~Engine() = default;

void check_options(const SequenceOptions& options) {
  check(options.max_tokens >= 0, kWhere, "max_tokens is ", options.max_tokens, ", expected 0 (as many as fit) or more");
  check(options.top_log_probabilities >= 0, kWhere, "top_log_probabilities is ", options.top_log_probabilities, ", expected 0 or more");
  check(options.log_probabilities || options.top_log_probabilities == 0, kWhere, "top_log_probabilities needs log_probabilities");
  validate(options.sampling);
}

void check_sequence(const Model& model, std::string_view what, std::span<const int32_t> prompt, const SequenceOptions& options,
                    int64_t positions) {
  const int64_t vocabulary = model.config().vocab_size, size = int64_t(prompt.size());
  check_options(options);
  const char* const most = positions == model.config().max_positions ? "the model's context" : "the room of a sequence";
  check(!prompt.empty(), kWhere, what, " is empty");
  for (int32_t id : prompt) check(id >= 0 && id < vocabulary, kWhere, what, " has token ", id, ", the vocabulary ends at ", vocabulary - 1);
  check(size < positions, kWhere, what, " has ", size, " tokens and ", most, " is ", positions, ": there is no room for a new one");
  check(options.max_tokens <= positions - size, kWhere, what, " of ", size, " tokens and ", options.max_tokens, " new ones do not fit in ",
        most, " of ", positions);
}

uint64_t Engine::add(std::vector<int32_t> prompt, const SequenceOptions& options) {
  check_sequence(model_, "the prompt", prompt, options, positions());
  waiting_.push_back(std::make_unique<Sequence>(Sequence{next_, SampledSequence(std::move(prompt), options, positions())}));
  return next_++;
}

void Engine::remove(uint64_t number) {
  const auto is = [=](const SequencePointer& s) { return s->number == number; };
  std::erase_if(waiting_, is);
  if (reading_ && reading_->number == number) {
    keep(*row_, 0, std::span(reading_->sampled.tokens()).first(reading_->read));
    reading_.reset();
    row_.reset();
  }
  const auto found = std::ranges::find_if(decoding_, is);
  if (found != decoding_.end()) leave(size_t(found - decoding_.begin()), true);
}

// The last row takes the place of one that leaves, here and in the cache.
void Engine::leave(size_t row, bool kept) {
  if (kept) keep(cache_, int64_t(row), std::span(decoding_[row]->sampled.tokens()).first(size_t(cache_.lengths()[row])));
  cache_.remove(int64_t(row), row_ ? &*row_ : nullptr);
  decoding_[row] = std::move(decoding_.back());
  decoding_.pop_back();
}

std::vector<EngineToken> Engine::step() {
  std::vector<EngineToken> tokens;
  if (!reading_ && !waiting_.empty() && int64_t(decoding_.size()) < options_.sequences) begin_reading();
  if (reading_ && (decoding_.empty() || !read_last_)) {
    read_last_ = true;
    read_chunk(tokens);
  } else if (!decoding_.empty()) {
    read_last_ = false;
    decode(tokens);
  }
  return tokens;
}

void Engine::begin_reading() {
  reading_ = std::move(waiting_.front());
  waiting_.pop_front();
  row_ = cache_.spare();
  reuse_prefix();
}

// Copies the positions that the prompt shares with a sequence in a cache; its last token is computed, for its logits.
void Engine::reuse_prefix() {
  const std::span<const int32_t> prompt = std::span(reading_->sampled.tokens()).first(reading_->sampled.prompt_tokens() - 1);
  size_t longest = 0;
  const KvCache* from = nullptr;
  size_t row = 0;
  const auto consider = [&](const KvCache& cache, size_t r, std::span<const int32_t> ids) {
    const size_t shared = common_prefix(prompt, ids);
    if (shared > longest) longest = shared, from = &cache, row = r;
  };
  for (size_t r = 0; r < decoding_.size(); ++r)
    consider(cache_, r, std::span(decoding_[r]->sampled.tokens()).first(size_t(cache_.lengths()[r])));
  for (size_t r = 0; r < kept_.size(); ++r) consider(*kept_cache_, r, kept_[r].ids);
  if (!from) return;
  if (from != &cache_) kept_[row].used = ++uses_;
  row_->copy_from(*from, int64_t(row), int64_t(longest), 0);
  reading_->read = longest;
  reused_tokens_ += int64_t(longest);
}

// Keeps the positions of `ids` in place of those that they extend, else of the longest unused ones.
void Engine::keep(const KvCache& from, int64_t row, std::span<const int32_t> ids) {
  if (kept_.empty() || ids.empty()) return;
  size_t to = 0;
  for (size_t r = 0; r < kept_.size(); ++r) {
    const size_t shared = common_prefix(kept_[r].ids, ids);
    if (shared == ids.size()) return;  // kept already
    if (shared == kept_[r].ids.size()) {
      to = r;
      break;
    }
    if (kept_[r].used < kept_[to].used) to = r;
  }
  kept_[to].ids.clear();  // while the copy is not whole
  kept_cache_->copy_from(from, row, int64_t(ids.size()), int64_t(to));
  kept_[to] = {{ids.begin(), ids.end()}, ++uses_};
}

// The next tokens of the prompt; after the last of them the first new one is sampled, and the sequence joins those that are decoded.
void Engine::read_chunk(std::vector<EngineToken>& tokens) {
  const double begin = now();
  Sequence& s = *reading_;
  const std::span<const int32_t> rest = std::span(s.sampled.tokens()).subspan(s.read);
  const size_t count = std::min(size_t(options_.prompt_chunk), rest.size());
  const Tensor ids = Tensor::from_host(model_.device(), {1, int64_t(count)}, rest.first(count));
  const Tensor logits = model_.last_logits(ids, *row_);
  s.read += count;
  times_.prompt_tokens += int64_t(count);
  if (s.read == s.sampled.prompt_tokens()) {
    SequencePointer done = std::exchange(reading_, nullptr);
    const KvCache row = *std::exchange(row_, std::nullopt);
    const std::vector<RowTerms> terms = s.sampled.options().log_probabilities ? row_terms(logits) : std::vector<RowTerms>();
    tokens.push_back(sample(s, download(logits), terms.data()));
    if (tokens.back().finished) {
      keep(row, 0, std::span(s.sampled.tokens()).first(s.read));
    } else if (!tokens.back().error) {
      cache_.join(row);
      decoding_.push_back(std::move(done));
    }
    ++times_.prompts;
  } else {
    model_.device().stream().synchronize();  // the time is that of this chunk
  }
  times_.prompt_seconds += now() - begin;
}

void Engine::decode(std::vector<EngineToken>& tokens) {
  const double begin = now();
  std::vector<int32_t> newest;
  bool wants_terms = false;
  for (const SequencePointer& s : decoding_) {
    newest.push_back(s->sampled.tokens().back());
    wants_terms |= s->sampled.options().log_probabilities;
  }
  const Tensor& rows = decode_step_(newest);
  const std::vector<RowTerms> terms = wants_terms ? row_terms(rows) : std::vector<RowTerms>(newest.size());
  const std::span<const float> logits = download(rows);
  const size_t vocabulary = size_t(model_.config().vocab_size);
  times_.step_tokens += int64_t(newest.size());
  for (size_t row = newest.size(); row-- > 0;) {  // backwards: a row that leaves is replaced by one that is done
    tokens.push_back(sample(*decoding_[row], logits.subspan(row * vocabulary, vocabulary), &terms[row]));
    if (tokens.back().left()) leave(row, !tokens.back().error);  // keys and values behind an error may not be numbers
  }
  std::ranges::reverse(tokens);
  times_.step_seconds += now() - begin;
}

EngineToken Engine::sample(Sequence& s, std::span<const float> logits, const RowTerms* terms) const {
  EngineToken token{.sequence = 0, .id = -1};
  try {
    token = s.sampled.next(logits, terms);
  } catch (const Error&) {
    token.error = std::current_exception();
  }
  token.sequence = s.number;
  return token;
}

std::span<const float> Engine::download(const Tensor& logits) {
  logits_.resize(size_t(logits.numel()));
  logits.read(std::span(logits_));
  return logits_;
}

}  // namespace weft
