#include "weft/generate/generator.h"

#include <algorithm>
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

}  // namespace

// The continuation of one prompt and its text so far, up to a stop string.
struct Generator::Continued {
  int64_t prompt;   // index of the prompt
  uint64_t number;  // number of the sequence in the engine
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

// Runs until all sequences are done or a stop is requested. `wanted`: maximum number of new tokens, for the progress.
void Generator::decode(Engine& engine, std::vector<Continued>& sequences, int64_t wanted) {
  std::map<uint64_t, Continued*> by_number;
  for (Continued& sequence : sequences) by_number[sequence.number] = &sequence;
  const GenerateTimes before = engine.times();
  while (!engine.idle() && !stop_requested()) {
    times_ = engine.times().since(before);
    report_progress({.what = "token", .done = times_.prompts + times_.step_tokens, .total = wanted});
    for (EngineToken& token : engine.step()) {
      if (token.error) std::rethrow_exception(token.error);
      Continued& sequence = *by_number.at(token.sequence);
      take(sequence, std::move(token));
      if (sequence.done) engine.remove(sequence.number);
    }
  }
  times_ = engine.times().since(before);
  report_progress({.what = "token", .done = wanted, .total = wanted});
}

std::vector<Completion> Generator::run(const std::vector<std::vector<int32_t>>& prompts,
                                       const std::function<void(const NewToken&)>& on_token) {
  on_token_ = on_token;
  times_ = {};
  const int64_t context = model_.config().max_positions;
  int64_t longest = 1, wanted = 0;  // tokens of the longest sequence; total new tokens
  for (size_t i = 0; i < prompts.size(); ++i) {
    check_sequence(model_, join("prompt ", i), prompts[i], options_of(0), context);
    const int64_t size = int64_t(prompts[i].size()), most = options_.max_tokens > 0 ? size + options_.max_tokens : context;
    longest = std::max(longest, most);
    wanted += most - size;
  }
  Engine engine(model_,
                {.sequences = std::max<int64_t>(1, std::min<int64_t>(options_.batch, int64_t(prompts.size()))), .positions = longest});
  std::vector<Continued> continued;
  std::map<std::vector<int32_t>, uint32_t> seen;
  for (size_t i = 0; i < prompts.size(); ++i)
    continued.push_back({int64_t(i), engine.add(prompts[i], options_of(seen[prompts[i]]++)), TextStream(options_.stop)});
  decode(engine, continued, wanted);
  std::vector<Completion> completions;
  for (Continued& sequence : continued) {
    end(sequence);
    completions.push_back(std::move(sequence.completion));
  }
  return completions;
}

Completion Generator::run(Engine& engine, const std::vector<int32_t>& prompt, uint32_t occurrence,
                          const std::function<void(const NewToken&)>& on_token) {
  check(engine.idle(), kWhere, "the engine has other sequences");
  on_token_ = on_token;
  times_ = {};
  const SequenceOptions options = options_of(occurrence);
  std::vector<Continued> continued;
  continued.push_back({0, engine.add(prompt, options), TextStream(options_.stop)});
  try {
    decode(engine, continued, options.max_tokens > 0 ? options.max_tokens : engine.positions() - int64_t(prompt.size()));
  } catch (const Stopped&) {  // between two ops; the tokens so far are whole
  } catch (...) {
    engine.remove(continued[0].number);
    throw;
  }
  engine.remove(continued[0].number);
  end(continued[0]);
  return std::move(continued[0].completion);
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
