// Text from a model: prompts in, continuations out, token by token.
//
//   Generator generator(*model, {.sampling = {.temperature = 0.8}, .max_tokens = 100, .eos_ids = {2}}, token_bytes);
//   generator.run({prompt}, [](const NewToken& t) { std::cout << t.text << std::flush; });
//
// Each prompt is read alone; then up to `batch` sequences take their steps together, and the next prompt takes the place
// of one that ends. A draw depends on the seed and on the prompt and place of the token, so a prompt continues in the
// same way alone or with others. (The same prompt given again is another sequence: it gets other draws.)
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/generate/decode_step.h"
#include "weft/generate/sampler.h"
#include "weft/generate/text_stream.h"
#include "weft/models/model.h"

namespace weft {

struct GenerateOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;              // new tokens per prompt; 0: as many as the model's context takes
  std::vector<int32_t> eos_ids = {};   // any of them ends a sequence
  std::vector<std::string> stop = {};  // so does any of these in its text
  // Sequences that step together. On the CPU up to four rows a product adds in one order, so results keep the bits of a lone
  // run; more are faster together, and may differ in the last bits of a logit. On a GPU any number may.
  int64_t batch = 4;
};

enum class FinishReason { eos, stop, length };
std::string_view name(FinishReason reason);

struct Completion {
  std::vector<int32_t> ids;  // the new tokens, with the one that ended it
  std::string text;          // of them; ends before a stop string
  FinishReason reason = FinishReason::length;
};

struct NewToken {
  int64_t prompt;         // which
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
  // The bytes of a token's text: "" for special tokens. Without it there is no text, and no stop strings.
  using TokenBytes = std::function<std::string(int32_t)>;

  Generator(const Model& model, GenerateOptions options, TokenBytes bytes = {});

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
  TokenBytes bytes_;
  Sampler sampler_;
  std::vector<float> logits_;
  std::function<void(const NewToken&)> on_token_;
  GenerateTimes times_;
};

}  // namespace weft
