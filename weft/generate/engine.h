// Many sequences of one model, decoded as a batch: sequences join and leave between steps. generate, evaluation and the server use it.
//
//   Engine engine(*model, {.sequences = 8});
//   const uint64_t first = engine.add({1, 2, 3}, {.max_tokens = 20});
//   while (!engine.idle())
//     for (const EngineToken& token : engine.step()) std::printf("%d\n", token.id);
//
// A prompt is read in chunks between decoding steps, one prompt at a time. The positions that it shares with a sequence in the engine, or
// with one of the last that left (EngineOptions::kept), are copied instead of computed. A token depends on its own sequence alone (its
// prompt, options and occurrence): never on the others, on the chunks, on what was copied or on when it joined (docs/numerics.md).
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weft/generate/decode_step.h"
#include "weft/generate/log_probability.h"
#include "weft/generate/sampler.h"
#include "weft/models/model.h"

namespace weft {

enum class FinishReason { eos, stop, length, stopped };  // stop: a stop string; stopped: on request
std::string_view name(FinishReason reason);

struct EngineOptions {
  int64_t sequences = 8;       // decoded as a batch, at most; others wait
  int64_t positions = 0;       // of a sequence, at most, its prompt included; 0: the model's context
  int64_t prompt_chunk = 512;  // tokens of a prompt that are read between two decoding steps
  int64_t kept = 0;            // sequences that have left whose keys and values are kept, for prompts that begin as they did
};

struct SequenceOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;             // new tokens; 0: as many as fit
  std::vector<int32_t> end_ids = {};  // each ends the sequence
  uint32_t occurrence = 0;            // number of earlier continuations of the same prompt: each has draws of its own
  bool log_probabilities = false;     // of each new token
  int64_t top_log_probabilities = 0;  // and of this many of the most likely ones; needs log_probabilities
};

// Throws, naming the option and its value, if one is out of range.
void check_options(const SequenceOptions& options);
// The same, and naming `what` ("the prompt") if the prompt is empty, has ids outside the vocabulary or does not fit with max_tokens into
// `positions`.
void check_sequence(const Model& model, std::string_view what, std::span<const int32_t> prompt, const SequenceOptions& options,
                    int64_t positions);

struct EngineToken {
  uint64_t sequence;
  int32_t id;
  std::optional<FinishReason> finished = {};  // eos or length: the sequence has left the engine
  std::optional<TokenLogProbability> log_probability = {};
  std::exception_ptr error = {};  // no token could be sampled (logits that are not numbers), and the sequence has left

  bool left() const { return finished || error; }
};

struct GenerateTimes {
  int64_t prompts = 0, prompt_tokens = 0, step_tokens = 0;  // prompt_tokens: computed, without those a kept cache had
  double prompt_seconds = 0;                                // reading prompts, and the first new token of each
  double step_seconds = 0;                                  // all later tokens
  // New tokens per second, without the first token of each prompt if there are others.
  double tokens_per_second() const;
};

class Engine {
 public:
  // Memory for the keys and values of all sequences is taken here. The model must outlive the engine.
  explicit Engine(const Model& model, const EngineOptions& options = {});

  // The sequence's number. It waits until a place is free, in the order of calls. Throws as check_sequence does.
  uint64_t add(std::vector<int32_t> prompt, const SequenceOptions& options);
  // Ends a sequence, whatever it is doing; a number that is not in the engine changes nothing.
  void remove(uint64_t sequence);

  // A chunk of a prompt, or one token of every sequence whose prompt is read, in turns: the new tokens.
  std::vector<EngineToken> step();

  bool idle() const { return waiting_.empty() && !reading_ && decoding_.empty(); }
  int64_t waiting() const { return int64_t(waiting_.size()); }
  int64_t running() const { return int64_t(decoding_.size()) + (reading_ ? 1 : 0); }
  int64_t positions() const { return cache_.capacity(); }
  int64_t reused_tokens() const { return reused_tokens_; }  // of prompts: copied
  const EngineOptions& options() const { return options_; }
  const GenerateTimes& times() const { return times_; }

 private:
  struct Sequence;
  using SequencePointer = std::unique_ptr<Sequence>;

  // The ids of positions that are in a cache, and when they were last used.
  struct Kept {
    std::vector<int32_t> ids;
    uint64_t used = 0;
  };

  void begin_reading();
  void reuse_prefix();
  void keep(const KvCache& from, int64_t row, std::span<const int32_t> ids);
  void read_chunk(std::vector<EngineToken>& tokens);
  void decode(std::vector<EngineToken>& tokens);
  void leave(size_t row, bool kept);
  std::span<const float> download(const Tensor& logits);
  EngineToken sample(Sequence& sequence, std::span<const float> logits, const RowTerms* terms) const;

  const Model& model_;
  EngineOptions options_;
  KvCache cache_;
  DecodeStep decode_step_;
  std::deque<SequencePointer> waiting_;
  SequencePointer reading_;
  std::optional<KvCache> row_;             // of the sequence that is read: cache_'s spare
  std::vector<SequencePointer> decoding_;  // by row of cache_
  std::optional<KvCache> kept_cache_;
  std::vector<Kept> kept_;  // by row of kept_cache_
  std::vector<float> logits_;
  uint64_t next_ = 1, uses_ = 0;
  int64_t reused_tokens_ = 0;
  bool read_last_ = false;  // the last step read a chunk
  GenerateTimes times_;

 public:
  ~Engine();
};

}  // namespace weft
