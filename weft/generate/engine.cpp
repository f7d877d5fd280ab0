#include "weft/generate/engine.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/generate/sampled_sequence.h"

namespace weft {
namespace {

constexpr const char* kWhere = "generate";

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int64_t positions_of(const Model& model, const EngineOptions& options) {
  const int64_t context = model.config().max_positions;
  check(options.positions >= 0 && options.positions <= context, kWhere, "positions is ", options.positions, ", expected 0 to ", context,
        " (the model's context)");
  return options.positions > 0 ? options.positions : context;
}

int64_t most_pages_of(const EngineOptions& options, int64_t positions) {
  check(options.sequences >= 1, kWhere, "sequences is ", options.sequences, ", expected 1 or more");
  check(options.prompt_chunk >= 1, kWhere, "prompt_chunk is ", options.prompt_chunk, ", expected 1 or more");
  check(options.pool >= 0, kWhere, "pool is ", options.pool, ", expected 0 (enough for all sequences) or more positions");
  return options.pool > 0 ? pages_for(options.pool) : options.sequences * pages_for(positions);
}

// Initial positions per sequence of a pool that grows: 128k positions would take gigabytes at once.
constexpr int64_t kFirstPositions = 512;

int64_t first_positions(const EngineOptions& options, int64_t positions) {
  return options.grows ? std::min(positions, kFirstPositions) : positions;
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

GenerateTimes GenerateTimes::since(const GenerateTimes& earlier) const {
  return {.prompts = prompts - earlier.prompts,
          .prompt_tokens = prompt_tokens - earlier.prompt_tokens,
          .step_tokens = step_tokens - earlier.step_tokens,
          .prompt_seconds = prompt_seconds - earlier.prompt_seconds,
          .step_seconds = step_seconds - earlier.step_seconds};
}

double GenerateTimes::tokens_per_second() const {
  if (step_tokens > 0) return double(step_tokens) / step_seconds;
  return prompts > 0 ? double(prompts) / prompt_seconds : 0;
}

struct Engine::Sequence {
  uint64_t number;
  SampledSequence sampled;
  int adapter;

  std::span<const int32_t> ids() const { return sampled.tokens(); }
  std::span<const int32_t> unread(const KvSequence& pages) const { return ids().subspan(size_t(pages.length())); }
  // The number of pages that the sequence may still take from the pool, in addition to `pages`.
  int64_t future(const KvSequence& pages) const { return pages.missing(int64_t(sampled.most()) - pages.length()); }
};

// The row for a new sequence. Sequences with the same adapter are adjacent, so that its matrices are read once per step.
size_t Engine::row_for(const std::vector<SequencePointer>& rows, int adapter) {
  size_t at = rows.size();
  while (at > 0 && rows[at - 1]->adapter > adapter) --at;
  return at;
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      positions_(positions_of(model, options)),
      most_pages_(most_pages_of(options, positions_)),
      pool_(model.make_pool(options.grows ? std::min(most_pages_, options.sequences * pages_for(first_positions(options, positions_)))
                                          : most_pages_)),
      cache_(pool_, options.sequences, first_positions(options, positions_)),
      prompt_cache_(pool_, options.sequences, cache_.capacity()),
      decode_step_(model, cache_) {}
Engine::~Engine() = default;

int64_t Engine::pages_in_use() const { return pool_->pages() - pool_->free_pages() - kept_.pages(); }

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
  model.adapter(options.adapter);
  const char* const most = positions == model.config().max_positions ? "the model's context" : "the room of a sequence";
  check(!prompt.empty(), kWhere, what, " is empty");
  for (int32_t id : prompt) check(id >= 0 && id < vocabulary, kWhere, what, " has token ", id, ", the vocabulary ends at ", vocabulary - 1);
  check(size < positions, kWhere, what, " has ", size, " tokens and ", most, " is ", positions, ": there is no room for a new one");
  check(options.max_tokens <= positions - size, kWhere, what, " of ", size, " tokens and ", options.max_tokens, " new ones do not fit in ",
        most, " of ", positions);
}

uint64_t Engine::add(std::vector<int32_t> prompt, const SequenceOptions& options) {
  check_sequence(model_, "the prompt", prompt, options, positions());
  auto sequence = std::make_unique<Sequence>(
      Sequence{next_, SampledSequence(std::move(prompt), options, positions()), model_.adapter(options.adapter)});
  const int64_t pages = sequence->future(KvSequence(pool_));
  check(pages <= most_pages_, kWhere, "the prompt of ", sequence->sampled.prompt_tokens(), " tokens and up to ",
        sequence->sampled.most() - sequence->sampled.prompt_tokens(), " new ones need ", pages, " pages, the pool has ", most_pages_);
  waiting_.push_back(std::move(sequence));
  return next_++;
}

void Engine::remove(uint64_t number) {
  const auto is = [=](const SequencePointer& s) { return s->number == number; };
  std::erase_if(waiting_, is);
  if (const auto found = std::ranges::find_if(reading_, is); found != reading_.end()) {
    keep(**found, prompt_cache_.remove(found - reading_.begin()));
    reading_.erase(found);
  }
  const auto found = std::ranges::find_if(decoding_, is);
  if (found != decoding_.end()) leave(size_t(found - decoding_.begin()), true);
}

void Engine::leave(size_t row, bool kept) {
  KvSequence pages = cache_.remove(int64_t(row));
  if (kept) keep(*decoding_[row], std::move(pages));
  decoding_.erase(decoding_.begin() + std::ptrdiff_t(row));
}

void Engine::keep(const Sequence& sequence, KvSequence pages) {
  if (!options_.keep) return;
  pages.truncate(pages.length());  // releases pages that a failed step had taken
  const std::span<const int32_t> ids = sequence.ids().first(size_t(pages.length()));
  kept_.keep(ids, std::move(pages));
}

std::vector<EngineToken> Engine::step() {
  std::vector<EngineToken> tokens;
  const bool may_read = decoding_.empty() || !read_last_;
  if (may_read && reading_.empty()) begin_reading();
  read_last_ = may_read && !reading_.empty();
  if (read_last_)
    read(tokens);
  else if (!decoding_.empty())
    decode(tokens);
  return tokens;
}

// Admits the first waiting sequence, and further ones while their prompts can be read in the same pass.
void Engine::begin_reading() {
  while (!waiting_.empty() && running() < options_.sequences && begin_next()) {
  }
}

// Admits the first waiting sequence if the pool has pages for its longest possible length and its prompt can join the pass of `reading_`.
bool Engine::begin_next() {
  const Sequence& next = *waiting_.front();
  const std::span<const int32_t> prompt =
      next.ids().first(next.sampled.prompt_tokens() - 1);  // the last token is always computed, for its logits
  const KeptPrefixes::Match kept = kept_.find(prompt, next.adapter);
  KvSequence pages = shared_prefix(prompt, next.adapter, kept);
  // A partly shared last page must be copied, which takes one page more. If there is no room for it, share whole pages only.
  if (!has_pages(pages)) pages.truncate(pages.length() / kPagePositions * kPagePositions);
  if (!has_pages(pages) || !fits_beside(next, pages)) return false;
  if (pages.length() > 0 && pages.length() <= int64_t(kept.length)) kept_.use(kept);
  reused_tokens_ += pages.length();
  const size_t row = row_for(reading_, next.adapter);
  prompt_cache_.join(std::move(pages), int64_t(row));
  reading_.insert(reading_.begin() + std::ptrdiff_t(row), std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

// Whether a prompt, of which `pages` are already computed, can be read in one pass with those in `reading_`. All are read whole and padded
// to the longest: together they must fit into a chunk, padding may at most double the work, and it must stay within each sequence's
// possible length. A prompt waits instead if it could later share half of its tokens with one of the others.
bool Engine::fits_beside(const Sequence& next, const KvSequence& pages) const {
  if (reading_.empty()) return true;
  const size_t own = next.unread(pages).size();
  size_t longest = own, shortest = own;
  for (size_t r = 0; r < reading_.size(); ++r) {
    const size_t tokens = reading_[r]->unread(prompt_cache_.sequence(int64_t(r))).size();
    longest = std::max(longest, tokens), shortest = std::min(shortest, tokens);
    if (reading_[r]->adapter != next.adapter) continue;
    const size_t shared = common_prefix(next.ids().first(next.ids().size() - 1), reading_[r]->ids());
    if (shared > size_t(pages.length()) && 2 * (shared - size_t(pages.length())) >= own) return false;
  }
  const auto has_positions = [=](const Sequence& s, const KvSequence& held) { return longest <= s.sampled.most() - size_t(held.length()); };
  for (size_t r = 0; r < reading_.size(); ++r)
    if (!has_positions(*reading_[r], prompt_cache_.sequence(int64_t(r)))) return false;
  return (reading_.size() + 1) * longest <= size_t(options_.prompt_chunk) && longest <= 2 * shortest && has_positions(next, pages);
}

// The longest common prefix of the prompt with a running sequence or with the kept match, in shared pages.
KvSequence Engine::shared_prefix(std::span<const int32_t> prompt, int adapter, const KeptPrefixes::Match& kept) const {
  size_t longest = kept.length, row = decoding_.size();
  for (size_t r = 0; r < decoding_.size(); ++r) {
    if (decoding_[r]->adapter != adapter) continue;
    const size_t shared = common_prefix(prompt, decoding_[r]->ids().first(size_t(cache_.sequence(int64_t(r)).length())));
    if (shared > longest) longest = shared, row = r;
  }
  if (longest == 0) return KvSequence(pool_, adapter);
  return row < decoding_.size() ? cache_.sequence(int64_t(row)).prefix(int64_t(longest)) : kept_.prefix(kept);
}

// Whether the pool has pages for the longest possible lengths of all running sequences and of the first waiting one, which has pages
// `first`.
bool Engine::has_pages(const KvSequence& first) const {
  int64_t needed = waiting_.front()->future(first);
  for (size_t r = 0; r < reading_.size(); ++r) needed += reading_[r]->future(prompt_cache_.sequence(int64_t(r)));
  for (size_t r = 0; r < decoding_.size(); ++r) needed += decoding_[r]->future(cache_.sequence(int64_t(r)));
  const int64_t free = pool_->free_pages() + most_pages_ - pool_->pages();
  return needed <= free || needed <= free + kept_.pages();
}

// Frees pages for a pass over `tokens` new tokens of every sequence in `cache`: grows the pool, or takes pages from kept sequences. There
// are enough because has_pages() admitted the sequences.
void Engine::make_room(const KvCache& cache, int64_t tokens) {
  const int64_t longest = std::ranges::max(cache.lengths()) + tokens, pages = cache.missing(tokens);
  const int64_t wanted = std::min(most_pages_, pool_->pages() + std::max<int64_t>(0, pages - pool_->free_pages()));
  if (longest > cache.capacity() || wanted > pool_->pages()) grow(longest, wanted);
  while (pool_->free_pages() < pages && !kept_.empty()) kept_.give_up_page();
}

// At least doubles a cache or pool that is too small, so that copying costs amortised constant time per position.
void Engine::grow(int64_t positions, int64_t pages) {
  decode_step_.forget();  // captured launches write into the old memory
  if (positions > cache_.capacity())
    for (KvCache* cache : {&cache_, &prompt_cache_})
      cache->grow(std::clamp(positions, std::min(2 * cache->capacity(), positions_), positions_));
  if (pages > pool_->pages()) pool_->grow(std::clamp(pages, std::min(2 * pool_->pages(), most_pages_), most_pages_));
}

// Prefill: reads the next tokens of the prompts, padded to the longest. At the end of a prompt the first new token is sampled and the
// sequence moves to `decoding_`.
void Engine::read(std::vector<EngineToken>& tokens) {
  const double begin = now();
  std::vector<int64_t> counts;
  bool ends = false, wants_terms = false;
  for (size_t r = 0; r < reading_.size(); ++r) {
    const int64_t left = int64_t(reading_[r]->unread(prompt_cache_.sequence(int64_t(r))).size());
    counts.push_back(std::min(options_.prompt_chunk, left));
    ends |= counts.back() == left;
    wants_terms |= reading_[r]->sampled.options().log_probabilities;
  }
  const int64_t longest = std::ranges::max(counts);
  std::vector<int32_t> ids(reading_.size() * size_t(longest), 0);
  for (size_t r = 0; r < reading_.size(); ++r)
    std::ranges::copy(reading_[r]->unread(prompt_cache_.sequence(int64_t(r))).first(size_t(counts[r])),
                      ids.begin() + std::ptrdiff_t(r * size_t(longest)));

  make_room(prompt_cache_, longest);
  KvPass pass(prompt_cache_, longest);
  const Tensor rows = model_.last_logits(Tensor::from_host(model_.device(), {int64_t(reading_.size()), longest}, ids), pass, counts);
  std::vector<RowTerms> terms(reading_.size());
  if (ends && wants_terms) terms = row_terms(rows);
  std::span<const float> logits;
  if (ends)
    logits = download(rows);
  else
    model_.device().stream().synchronize();  // so that the measured time is that of this chunk
  pass.commit(counts);
  times_.prompt_tokens += std::accumulate(counts.begin(), counts.end(), int64_t{0});

  const size_t vocabulary = size_t(model_.config().vocab_size);
  for (size_t row = counts.size(); row-- > 0;) {  // backwards: when one leaves, only rows already handled move
    if (!reading_[row]->unread(prompt_cache_.sequence(int64_t(row))).empty()) continue;
    tokens.push_back(sample(*reading_[row], logits.subspan(row * vocabulary, vocabulary), &terms[row]));
    end_reading(row, tokens.back());
  }
  std::ranges::reverse(tokens);
  times_.prompt_seconds += now() - begin;
}

void Engine::end_reading(size_t row, const EngineToken& first) {
  const auto place = reading_.begin() + std::ptrdiff_t(row);
  SequencePointer read = std::move(*place);
  reading_.erase(place);
  KvSequence pages = prompt_cache_.remove(int64_t(row));
  ++times_.prompts;
  if (first.error) return;
  if (first.finished) return keep(*read, std::move(pages));
  const size_t at = row_for(decoding_, read->adapter);
  cache_.join(std::move(pages), int64_t(at));
  decoding_.insert(decoding_.begin() + std::ptrdiff_t(at), std::move(read));
}

void Engine::decode(std::vector<EngineToken>& tokens) {
  const double begin = now();
  std::vector<int32_t> newest;
  bool wants_terms = false;
  for (const SequencePointer& s : decoding_) {
    newest.push_back(s->sampled.tokens().back());
    wants_terms |= s->sampled.options().log_probabilities;
  }
  make_room(cache_, 1);
  KvPass pass(cache_, 1);
  const Tensor& rows = decode_step_(pass, newest);
  const std::vector<int32_t> best = best_ids();
  const std::vector<RowTerms> terms = wants_terms ? row_terms(rows) : std::vector<RowTerms>(newest.size());
  const bool samples = std::ranges::any_of(best, [](int32_t id) { return id < 0; });
  const std::span<const float> logits = samples ? download(rows) : std::span<const float>();
  pass.commit();
  const size_t vocabulary = size_t(model_.config().vocab_size);
  times_.step_tokens += int64_t(newest.size());
  tokens.resize(newest.size());
  parallel_for(int64_t(newest.size()), samples ? model_.device().host_threads() : 1, [&](int64_t task) {
    const size_t row = size_t(task);
    tokens[row] = best[row] < 0 ? sample(*decoding_[row], logits.subspan(row * vocabulary, vocabulary), &terms[row])
                                : take(*decoding_[row], best[row]);
  });
  for (size_t row = newest.size(); row-- > 0;)               // backwards: when one leaves, only rows already handled move
    if (tokens[row].left()) leave(row, !tokens[row].error);  // after an error the keys and values may be NaN
  times_.step_seconds += now() - begin;
}

// The greedy ids that the device chose; negative where the host's sampler must choose or report an error.
std::vector<int32_t> Engine::best_ids() const {
  const Tensor& best = decode_step_.best();
  const auto takes_best = [](const SequencePointer& s) { return s->sampled.takes_best(); };
  if (!best || !std::ranges::any_of(decoding_, takes_best)) return std::vector<int32_t>(decoding_.size(), -1);
  std::vector<int32_t> ids = best.to_host<int32_t>();
  for (size_t row = 0; row < ids.size(); ++row)
    if (!takes_best(decoding_[row])) ids[row] = -1;
  return ids;
}

EngineToken Engine::take(Sequence& s, int32_t id) const {
  EngineToken token = s.sampled.take(id);
  token.sequence = s.number;
  return token;
}

EngineToken Engine::sample(Sequence& s, std::span<const float> logits, const RowTerms* terms) const {
  EngineToken token{.sequence = 0, .id = -1};
  try {
    token = s.sampled.next(logits, terms);
  } catch (...) {  // even out of memory must not lose the other rows' tokens
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
