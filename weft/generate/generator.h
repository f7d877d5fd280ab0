// Text from a model: prompts in, continuations out, token by token.
//
//   const ModelFolder folder("SmolLM2-135M");
//   const auto model = folder.load(*device);
//   Generator generator(*model, folder, {.sampling = {.temperature = 0.8}, .max_tokens = 100});
//   generator.run({folder.tokenizer().encode_prompt("Once")}, [](const NewToken& t) { std::cout << t.text << std::flush; });
//
// Each prompt is read alone; then up to `batch` sequences take their steps together, and the next prompt takes the place
// of one that ends. A draw depends on the seed, the prompt's ids, the place of the token and how often the same prompt came
// before, so a prompt continues in the same way alone or with others, and the same prompt given again in another.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/generate/decode_step.h"
#include "weft/generate/sampler.h"
#include "weft/generate/text_stream.h"
#include "weft/models/folder.h"
#include "weft/models/model.h"

namespace weft {

struct GenerateOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;              // new tokens per prompt; 0: as many as the model's context takes
  std::vector<int32_t> eos_ids = {};   // any of them ends a sequence; a folder's own need not be given
  bool ignore_eos = false;             // nothing but `stop` and max_tokens ends it
  std::vector<std::string> stop = {};  // so does any of these in its text
  // Sequences that step together. On the CPU up to four rows a product adds in one order, so results keep the bits of a lone
  // run; more are faster together, and may differ in the last bits of a logit. On a GPU any number may.
  int64_t batch = 4;
};

// How a model's generation_config.json says to sample: where do_sample is true its temperature (or 1), top_k, top_p and min_p,
// else greedily; its repetition penalty in both cases.
SamplingOptions sampling_of(const GenerationConfig& config);

enum class FinishReason { eos, stop, length };
std::string_view name(FinishReason reason);

struct Completion {
  std::vector<int32_t> ids;  // the new tokens, with the one that ended it
  std::string text;          // of them; ends before a stop string
  FinishReason reason = FinishReason::length;
};

struct NewToken {
  int64_t prompt;  // which
  int32_t id;
  std::string_view text;  // what is certain now; with the last token all that was held back
  bool last;
};

struct GenerateTimes {
  int64_t prompts = 0, prompt_tokens = 0, step_tokens = 0;
  double prompt_seconds = 0;  // reading prompts, and the first new token of each
  double step_seconds = 0;    // all later tokens
  // New tokens a second, the first of each prompt left out where there are others.
  double tokens_per_second() const;
};

class Generator {
 public:
  // The bytes of a token's text, and whether they are part of what is shown. Without it there is no text, and no stop strings.
  struct TokenText {
    std::string bytes;
    bool hidden = false;
  };
  using TokenTexts = std::function<TokenText(int32_t)>;

  Generator(const Model& model, GenerateOptions options, TokenTexts texts = {});

  // Takes the tokens that end a text, the texts of tokens and which of them are special from the model's folder, which must
  // outlive it. Special tokens are hidden unless `show_special`.
  Generator(const Model& model, const ModelFolder& folder, GenerateOptions options, bool show_special = false);

  // The continuation of each prompt. on_token is called for every token as it comes.
  std::vector<Completion> run(const std::vector<std::vector<int32_t>>& prompts, const std::function<void(const NewToken&)>& on_token = {});

  const GenerateTimes& times() const { return times_; }  // of the last run

 private:
  struct Sequence;

  int64_t room(size_t prompt, const std::vector<int32_t>& ids) const;
  void start(Sequence& sequence, KvCache& cache);
  void step(std::vector<Sequence*>& active, DecodeStep& decode);
  void take(Sequence& sequence, std::span<const float> logits);
  std::span<const float> download(const Tensor& logits);

  const Model& model_;
  GenerateOptions options_;
  TokenTexts texts_;
  Sampler sampler_;
  std::vector<float> logits_;
  std::function<void(const NewToken&)> on_token_;
  GenerateTimes times_;
};

}  // namespace weft
