#include "weft/generate/generator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "weft/base/progress.h"
#include "weft/generate/sampled_sequence.h"

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

// One prompt's continuation: its text so far, up to a stop string.
struct Generator::Continued {
  int64_t prompt;  // its index
  TextStream text;
  Completion completion = {};
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
    : model_(model), options_(std::move(options)), texts_(std::move(texts)) {
  check(options_.batch >= 1, kWhere, "batch is ", options_.batch, ", expected 1 or more");
  check(options_.stop.empty() || texts_, kWhere, "stop strings need a tokenizer");
  check_options(options_of(0));
}

Generator::Generator(const Model& model, const ModelFolder& folder, GenerateOptions options, bool show_special)
    : Generator(model, std::move(options), texts_of(folder, show_special)) {
  for (int32_t id : folder.end_ids()) options_.eos_ids.push_back(id);
}

SequenceOptions Generator::options_of(uint32_t occurrence) const {
  return {.sampling = options_.sampling,
          .max_tokens = options_.max_tokens,
          .end_ids = options_.ignore_eos ? std::vector<int32_t>() : options_.eos_ids,
          .occurrence = occurrence,
          .log_probabilities = options_.log_probabilities,
          .top_log_probabilities = options_.top_log_probabilities};
}

std::vector<Completion> Generator::run(const std::vector<std::vector<int32_t>>& prompts,
                                       const std::function<void(const NewToken&)>& on_token) {
  on_token_ = on_token;
  times_ = {};
  const int64_t context = model_.config().max_positions;
  int64_t longest = 1, wanted = 0;  // tokens of a sequence; new ones in all
  for (size_t i = 0; i < prompts.size(); ++i) {
    check_sequence(model_, join("prompt ", i), prompts[i], options_of(0), context);
    const int64_t size = int64_t(prompts[i].size()), most = options_.max_tokens > 0 ? size + options_.max_tokens : context;
    longest = std::max(longest, most);
    wanted += most - size;
  }
  std::vector<Continued> continued;
  std::map<std::vector<int32_t>, uint32_t> seen;
  std::map<uint64_t, size_t> index;  // of a sequence's prompt
  Engine engine(model_,
                {.sequences = std::max<int64_t>(1, std::min<int64_t>(options_.batch, int64_t(prompts.size()))), .positions = longest});
  for (size_t i = 0; i < prompts.size(); ++i) {
    continued.push_back({int64_t(i), TextStream(options_.stop)});
    index[engine.add(prompts[i], options_of(seen[prompts[i]]++))] = i;
  }
  while (!engine.idle() && !stop_requested()) {
    report_progress({.what = "token", .done = engine.times().prompts + engine.times().step_tokens, .total = wanted});
    for (EngineToken& token : engine.step()) {
      if (token.error) std::rethrow_exception(token.error);
      Continued& sequence = continued[index.at(token.sequence)];
      const uint64_t number = token.sequence;
      take(sequence, std::move(token));
      if (sequence.done) engine.remove(number);
    }
  }
  times_ = engine.times();
  report_progress({.what = "token", .done = wanted, .total = wanted});
  std::vector<Completion> completions;
  for (Continued& sequence : continued) {
    end(sequence);
    completions.push_back(std::move(sequence.completion));
  }
  return completions;
}

Completion Generator::run(CachedSequence& kept, const std::vector<int32_t>& prompt, uint32_t occurrence,
                          const std::function<void(const NewToken&)>& on_token) {
  on_token_ = on_token;
  times_ = {};
  const SequenceOptions options = options_of(occurrence);
  check_sequence(model_, "prompt 0", prompt, options, model_.config().max_positions);
  SampledSequence sampled(prompt, options, model_.config().max_positions);
  Continued continued{0, TextStream(options_.stop)};
  const int64_t wanted = int64_t(sampled.most() - prompt.size());
  double begin = now();
  const auto seconds = [&] { return now() - std::exchange(begin, now()); };
  const auto take_next = [&](std::span<const float> logits) {
    const std::vector<RowTerms> terms = options.log_probabilities
                                            ? row_terms(Tensor::from_host(model_.device(), {1, int64_t(logits.size())}, logits))
                                            : std::vector<RowTerms>();
    take(continued, sampled.next(logits, terms.data()));
  };
  try {
    report_progress({.what = "token", .done = 0, .total = wanted});
    take_next(kept.read(prompt));
    times_ = {.prompts = 1, .prompt_tokens = int64_t(prompt.size()) - kept.reused(), .step_tokens = 0, .prompt_seconds = seconds()};
    while (!continued.done && !stop_requested()) {
      report_progress({.what = "token", .done = 1 + times_.step_tokens, .total = wanted});
      take_next(kept.step(sampled.tokens().back()));
      ++times_.step_tokens;
      times_.step_seconds += seconds();
    }
  } catch (const Stopped&) {  // between two ops; the tokens so far are whole
  }
  end(continued);
  return continued.completion;
}

// Ends a continuation that a stop request cut short.
void Generator::end(Continued& sequence) {
  if (std::exchange(sequence.done, true)) return;
  sequence.completion.reason = FinishReason::stopped;
  sequence.completion.text += sequence.text.finish();
}

void Generator::take(Continued& s, EngineToken token) {
  s.completion.ids.push_back(token.id);
  auto& recorded = s.completion.log_probabilities;
  if (token.log_probability) recorded.push_back(std::move(*token.log_probability));
  const TokenText bytes = texts_ ? texts_(token.id) : TokenText{};
  std::string text = s.text.push(bytes.bytes, bytes.hidden);
  s.done = token.finished || s.text.stopped();
  s.completion.reason = s.text.stopped() ? FinishReason::stop : token.finished.value_or(FinishReason::length);
  if (s.done) text += s.text.finish();
  s.completion.text += text;
  if (on_token_) on_token_({s.prompt, token.id, text, s.done, recorded.empty() ? nullptr : &recorded.back()});
}

}  // namespace weft
