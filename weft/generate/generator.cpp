#include "weft/generate/generator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "weft/base/progress.h"

namespace weft {
namespace {

constexpr const char* kWhere = "generate";

// Empty if the folder has no tokenizer.
Generator::TokenTexts texts_of(const ModelFolder& folder, bool show_special) {
  if (!folder.has_tokenizer()) return {};
  return [&tokenizer = folder.tokenizer(), show_special](int32_t id) -> Generator::TokenText {
    return {std::string(tokenizer.bytes_of(id)), tokenizer.is_special(id) && !show_special};
  };
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

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

struct Generator::Sequence {
  int64_t prompt;               // its index
  uint64_t key;                 // of the prompt's ids, for the draws
  uint32_t repeat;              // number of earlier occurrences of the same prompt
  std::vector<int32_t> tokens;  // the prompt, then the new tokens
  size_t prompt_tokens, most;   // most: the limit of the sequence
  TextStream text;
  Completion completion;
  bool done = false;
};

SamplingOptions sampling_of(const GenerationConfig& g) {
  SamplingOptions options{.repetition_penalty = g.repetition_penalty.value_or(1)};
  if (!g.do_sample.value_or(false)) return options;
  options.temperature = g.temperature.value_or(1);
  options.top_k = g.top_k.value_or(0);
  options.top_p = g.top_p.value_or(1);
  options.min_p = g.min_p.value_or(0);
  return options;
}

Generator::Generator(const Model& model, GenerateOptions options, TokenTexts texts)
    : model_(model), options_(std::move(options)), texts_(std::move(texts)), sampler_(options_.sampling) {
  check(options_.max_tokens >= 0, kWhere, "max_tokens is ", options_.max_tokens, ", expected 0 (as many as fit) or more");
  check(options_.top_log_probabilities >= 0, kWhere, "top_log_probabilities is ", options_.top_log_probabilities, ", expected 0 or more");
  check(options_.log_probabilities || options_.top_log_probabilities == 0, kWhere, "top_log_probabilities needs log_probabilities");
  check(options_.batch >= 1, kWhere, "batch is ", options_.batch, ", expected 1 or more");
  check(options_.stop.empty() || texts_, kWhere, "stop strings need a tokenizer");
}

Generator::Generator(const Model& model, const ModelFolder& folder, GenerateOptions options, bool show_special)
    : Generator(model, std::move(options), texts_of(folder, show_special)) {
  for (int32_t id : folder.end_ids()) options_.eos_ids.push_back(id);
}

// The limit of the sequence of this prompt, in tokens.
int64_t Generator::room(size_t prompt, const std::vector<int32_t>& ids) const {
  const int64_t context = model_.config().max_positions, vocabulary = model_.config().vocab_size, size = int64_t(ids.size());
  check(!ids.empty(), kWhere, "prompt ", prompt, " is empty");
  for (int32_t id : ids)
    check(id >= 0 && id < vocabulary, kWhere, "prompt ", prompt, " has token ", id, ", the vocabulary ends at ", vocabulary - 1);
  check(size < context, kWhere, "prompt ", prompt, " has ", size, " tokens and the model's context is ", context,
        ": there is no room for a new one");
  check(options_.max_tokens <= context - size, kWhere, "prompt ", prompt, " of ", size, " tokens and ", options_.max_tokens,
        " new ones do not fit in the model's context of ", context);
  return options_.max_tokens > 0 ? size + options_.max_tokens : context;
}

std::vector<Completion> Generator::run(const std::vector<std::vector<int32_t>>& prompts,
                                       const std::function<void(const NewToken&)>& on_token) {
  on_token_ = on_token;
  times_ = {};
  std::vector<Sequence> sequences;
  std::map<std::vector<int32_t>, uint32_t> seen;
  int64_t most = 1, wanted = 0;  // in a sequence; new ones in all
  for (size_t i = 0; i < prompts.size(); ++i) {
    sequences.push_back(sequence_of(i, prompts[i], seen[prompts[i]]++));
    wanted += int64_t(sequences.back().most - prompts[i].size());
    most = std::max(most, int64_t(sequences.back().most));
  }
  KvCache cache = model_.make_cache(std::max<int64_t>(1, std::min<int64_t>(options_.batch, int64_t(prompts.size()))), most);
  while (cache.batch() > 0) cache.remove(cache.batch() - 1);
  DecodeStep decode(model_, cache);
  std::vector<Sequence*> active;
  for (size_t next = 0; !stop_requested() && (next < sequences.size() || !active.empty());) {
    report_progress({.what = "token", .done = times_.prompts + times_.step_tokens, .total = wanted});
    if (next < sequences.size() && int64_t(active.size()) < options_.batch) {
      active.push_back(&sequences[next++]);
      start(*active.back(), cache);
    } else {
      step(active, decode);
    }
    for (size_t b = active.size(); b-- > 0;) {
      if (!active[b]->done) continue;
      cache.remove(int64_t(b));  // the last row moves to its place, here and in the cache
      active[b] = active.back();
      active.pop_back();
    }
  }
  report_progress({.what = "token", .done = wanted, .total = wanted});
  std::vector<Completion> completions;
  for (Sequence& sequence : sequences) {
    end(sequence);
    completions.push_back(std::move(sequence.completion));
  }
  return completions;
}

Completion Generator::run(CachedSequence& kept, const std::vector<int32_t>& prompt, uint32_t occurrence,
                          const std::function<void(const NewToken&)>& on_token) {
  on_token_ = on_token;
  times_ = {};
  Sequence sequence = sequence_of(0, prompt, occurrence);
  const auto wanted = int64_t(sequence.most - sequence.prompt_tokens);
  double begin = now();
  const auto seconds = [&] { return now() - std::exchange(begin, now()); };
  try {
    report_progress({.what = "token", .done = 0, .total = wanted});
    const std::span<const float> first = kept.read(prompt);
    take(sequence, first, terms_of(first).data());
    times_ = {.prompts = 1, .prompt_tokens = int64_t(prompt.size()) - kept.reused(), .step_tokens = 0, .prompt_seconds = seconds()};
    while (!sequence.done && !stop_requested()) {
      report_progress({.what = "token", .done = 1 + times_.step_tokens, .total = wanted});
      const std::span<const float> logits = kept.step(sequence.tokens.back());
      take(sequence, logits, terms_of(logits).data());
      ++times_.step_tokens;
      times_.step_seconds += seconds();
    }
  } catch (const Stopped&) {  // between two ops; the tokens so far are whole
  }
  end(sequence);
  return sequence.completion;
}

Generator::Sequence Generator::sequence_of(size_t prompt, const std::vector<int32_t>& ids, uint32_t occurrence) const {
  const auto most = size_t(room(prompt, ids));
  Sequence sequence{int64_t(prompt), prompt_key(ids), occurrence, ids, ids.size(), most, TextStream(options_.stop), {}};
  sequence.tokens.reserve(most);
  return sequence;
}

// Ends a sequence that a stop request cut short.
void Generator::end(Sequence& sequence) {
  if (std::exchange(sequence.done, true)) return;
  sequence.completion.reason = FinishReason::stopped;
  sequence.completion.text += sequence.text.finish();
}

std::span<const float> Generator::download(const Tensor& logits) {
  logits_.resize(size_t(logits.numel()));
  logits.read(std::span(logits_));
  return logits_;
}

// Prefills a row of the cache with the prompt and samples the first token.
void Generator::start(Sequence& sequence, KvCache& cache) {
  const double begin = now();
  KvCache row = cache.spare();
  const Tensor ids = Tensor::from_host(model_.device(), {1, int64_t(sequence.prompt_tokens)}, sequence.tokens);
  const Tensor logits = [&] {
    KvPass pass(row, int64_t(sequence.prompt_tokens));
    const Tensor last = model_.last_logits(ids, pass);
    pass.commit();
    return last;
  }();
  cache.join(row);
  const std::vector<RowTerms> terms = terms_of(logits);
  take(sequence, download(logits), terms.data());
  ++times_.prompts;
  times_.prompt_tokens += int64_t(sequence.prompt_tokens);
  times_.prompt_seconds += now() - begin;
}

// Decodes one token of every sequence.
void Generator::step(std::vector<Sequence*>& active, DecodeStep& decode) {
  const double begin = now();
  std::vector<int32_t> newest;
  for (const Sequence* sequence : active) newest.push_back(sequence->tokens.back());
  const Tensor& rows = decode(newest);
  const std::vector<RowTerms> terms = terms_of(rows);
  const auto logits = download(rows);
  const size_t vocabulary = size_t(model_.config().vocab_size);
  for (size_t b = 0; b < active.size(); ++b)
    take(*active[b], logits.subspan(b * vocabulary, vocabulary), terms.empty() ? nullptr : &terms[b]);
  times_.step_tokens += int64_t(active.size());
  times_.step_seconds += now() - begin;
}

// Empty unless log-probabilities are wanted.
std::vector<RowTerms> Generator::terms_of(const Tensor& logits) const {
  return options_.log_probabilities ? row_terms(logits) : std::vector<RowTerms>();
}
std::vector<RowTerms> Generator::terms_of(std::span<const float> logits) const {
  if (!options_.log_probabilities) return {};
  return row_terms(Tensor::from_host(model_.device(), {1, int64_t(logits.size())}, logits));
}

// `terms`: of the logits; null or ignored unless log-probabilities are wanted.
void Generator::take(Sequence& s, std::span<const float> logits, const RowTerms* terms) {
  const int32_t id = sampler_.next(logits, s.tokens, {s.key, s.repeat, uint32_t(s.tokens.size())});
  s.tokens.push_back(id);
  s.completion.ids.push_back(id);
  auto& recorded = s.completion.log_probabilities;
  if (options_.log_probabilities) recorded.push_back(token_log_probability(logits, *terms, id, options_.top_log_probabilities));
  const bool eos = !options_.ignore_eos && std::find(options_.eos_ids.begin(), options_.eos_ids.end(), id) != options_.eos_ids.end();
  const TokenText token = texts_ ? texts_(id) : TokenText{};
  std::string text = s.text.push(token.bytes, token.hidden);
  s.done = eos || s.text.stopped() || s.tokens.size() == s.most;
  s.completion.reason = s.text.stopped() ? FinishReason::stop : eos ? FinishReason::eos : FinishReason::length;
  if (s.done) text += s.text.finish();
  s.completion.text += text;
  if (on_token_) on_token_({s.prompt, id, text, s.done, recorded.empty() ? nullptr : &recorded.back()});
}

}  // namespace weft
