// Text from a model: prompts in, continuations out, token by token.
//
//   const ModelFolder folder("SmolLM2-135M");
//   const auto model = folder.load(*device);
//   Generator generator(*model, folder, {.sampling = {.temperature = 0.8}, .max_tokens = 100});
//   generator.run({folder.tokenizer().encode_prompt("Once")}, [](const NewToken& t) { std::cout << t.text << std::flush; });
//
// Up to `batch` sequences are decoded as a batch; when one ends, the next prompt takes its place (weft/generate/engine.h). A random draw
// depends on the seed, the prompt's ids, the position of the token and the number of earlier occurrences of the same prompt. So a prompt
// has the same continuation alone or in a batch, and another one each time it is repeated.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/generate/engine.h"
#include "weft/generate/log_probability.h"
#include "weft/generate/sampler.h"
#include "weft/generate/text_stream.h"
#include "weft/models/folder.h"
#include "weft/models/model.h"

namespace weft {

struct GenerateOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;              // new tokens per prompt; 0: up to the model's context
  std::vector<int32_t> eos_ids = {};   // each ends a sequence; those of a ModelFolder are added
  bool ignore_eos = false;             // only `stop` and max_tokens end a sequence
  std::vector<std::string> stop = {};  // texts that end a sequence
  bool log_probabilities = false;      // recorded for each new token (weft/generate/log_probability.h)
  int64_t top_log_probabilities = 0;   // and for this many of the most likely ones; needs log_probabilities
  // Sequences decoded as a batch; the results do not depend on it (docs/numerics.md).
  int64_t batch = 4;
  // Set by another thread or a signal handler: ends the run after the current token.
  const std::atomic<bool>* stop_request = nullptr;
};

// The sampling settings of generation_config.json: if do_sample is true its temperature (default 1), top_k, top_p and min_p, else
// greedy; its repetition penalty in both cases.
SamplingOptions sampling_of(const GenerationConfig& config);

struct Completion {
  std::vector<int32_t> ids;  // the new tokens, including the one that ended the sequence
  std::string text;          // their text, up to a stop string
  FinishReason reason = FinishReason::length;
  std::vector<TokenLogProbability> log_probabilities = {};  // of ids, if wanted
};

struct NewToken {
  int64_t prompt;  // its index
  int32_t id;
  std::string_view text;  // the text that is certain now; the last token adds all that was held back
  bool last;
  const TokenLogProbability* log_probability = nullptr;  // if wanted
};

class Generator {
 public:
  // The bytes of a token, and whether they are left out of the text. Without a TokenTexts there is no text and no stop string.
  struct TokenText {
    std::string bytes;
    bool hidden = false;
  };
  using TokenTexts = std::function<TokenText(int32_t)>;

  Generator(const Model& model, GenerateOptions options, TokenTexts texts = {});

  // Takes end tokens, token texts and special tokens from the model's folder, which must outlive the generator. Special tokens are left
  // out of the text unless `show_special`.
  Generator(const Model& model, const ModelFolder& folder, GenerateOptions options, bool show_special = false);

  // Continues each prompt. on_token is called for every new token at once.
  std::vector<Completion> run(const std::vector<std::vector<int32_t>>& prompts, const std::function<void(const NewToken&)>& on_token = {});

  // Continues one prompt in an idle engine that outlives the call; the prefix that it kept (EngineOptions::keep) is not computed again.
  // `occurrence`: number of earlier continuations of the same prompt; each has draws of its own. A progress listener that throws Stopped
  // ends the run as stop_request does.
  Completion run(Engine& engine, const std::vector<int32_t>& prompt, uint32_t occurrence = 0,
                 const std::function<void(const NewToken&)>& on_token = {});

  const GenerateTimes& times() const { return times_; }  // of the last run
  bool records_log_probabilities() const { return options_.log_probabilities; }

 private:
  struct Continued;

  SequenceOptions options_of(uint32_t occurrence) const;
  bool stop_requested() const { return options_.stop_request && *options_.stop_request; }
  void decode(Engine& engine, std::vector<Continued>& sequences, int64_t wanted);
  static void end(Continued& sequence);
  void take(Continued& sequence, EngineToken token);

  const Model& model_;
  GenerateOptions options_;
  TokenTexts texts_;
  std::function<void(const NewToken&)> on_token_;
  GenerateTimes times_;
};

}  // namespace weft
