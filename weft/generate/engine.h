// Many sequences of one model, decoded as a batch: sequences join and leave between steps. generate, evaluation and the server use it.
//
//   Engine engine(*model, {.sequences = 8});
//   const uint64_t first = engine.add({1, 2, 3}, {.max_tokens = 20});
//   while (!engine.idle())
//     for (const EngineToken& token : engine.step()) std::printf("%d\n", token.id);
//
// Prompts are read between decoding steps: a chunk of a long one, or several short ones in one pass. Keys and values are in the pages of
// one pool (weft/nn/kv_pool.h). A sequence waits until the pool has pages for all positions it may come to have, so none ever runs out of
// them midway. The pool's memory is taken at the start, or as sequences grow (EngineOptions::grows). The positions that a prompt shares
// with a sequence in the engine, or with one that left (EngineOptions::keep), are read from that one's pages instead of computed. A token
// depends on its own sequence alone (its prompt, options and occurrence): never on the others, on the chunks, on what was shared or on when
// it joined (docs/numerics.md).
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/generate/decode_step.h"
#include "weft/generate/kept_prefixes.h"
#include "weft/generate/log_probability.h"
#include "weft/generate/sampler.h"
#include "weft/models/model.h"

namespace weft {

enum class FinishReason { eos, stop, length, stopped };  // stop: a stop string; stopped: on request
std::string_view name(FinishReason reason);

struct EngineOptions {
  int64_t sequences = 8;       // decoded as a batch, at most; others wait
  int64_t positions = 0;       // of a sequence, at most, its prompt included; 0: the model's context
  int64_t prompt_chunk = 512;  // tokens of prompts that are read between two decoding steps, at most
  int64_t pool = 0;            // positions of all sequences together, at most; 0: `sequences` times `positions`. In whole pages
  bool keep = false;           // sequences that have left stay in pages that no other needs yet, for prompts that begin as they did
  bool grows = false;          // the memory of the pool begins small and doubles whenever sequences need more, up to `pool`
};

struct SequenceOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;             // new tokens; 0: as many as fit
  std::vector<int32_t> end_ids = {};  // each ends the sequence
  uint32_t occurrence = 0;            // number of earlier continuations of the same prompt: each has draws of its own
  bool log_probabilities = false;     // of each new token
  int64_t top_log_probabilities = 0;  // and of this many of the most likely ones; needs log_probabilities
  std::string adapter = {};           // one of Model::named_adapters(); empty: none
};

// Throws, naming the option and its value, if one is out of range.
void check_options(const SequenceOptions& options);
// The same; also throws, naming `what` ("the prompt"), if the prompt is empty, has ids outside the vocabulary or does not fit with
// max_tokens into `positions`.
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
  int64_t prompts = 0, prompt_tokens = 0, step_tokens = 0;  // prompt_tokens: those computed, not those found in a cache
  double prompt_seconds = 0;                                // reading prompts, and the first new token of each
  double step_seconds = 0;                                  // all later tokens
  GenerateTimes since(const GenerateTimes& earlier) const;
  // New tokens per second, not counting the first token of each prompt unless there are no others.
  double tokens_per_second() const;
};

class Engine {
 public:
  // The model must outlive the engine.
  explicit Engine(const Model& model, const EngineOptions& options = {});

  // Adds a sequence and returns its number. It waits until there is a place and enough pages, in the order of calls. Throws as
  // check_sequence does, and if the sequence would not fit into the whole pool.
  uint64_t add(std::vector<int32_t> prompt, const SequenceOptions& options);
  // Ends a sequence, whatever it is doing; a number that is not in the engine changes nothing.
  void remove(uint64_t sequence);

  // Reads a chunk of a prompt or some short prompts, or decodes one token of every sequence whose prompt has been read, in turns. Returns
  // the new tokens. A step that throws leaves every sequence as it was.
  std::vector<EngineToken> step();

  bool idle() const { return waiting_.empty() && reading_.empty() && decoding_.empty(); }
  int64_t waiting() const { return int64_t(waiting_.size()); }
  int64_t running() const { return int64_t(decoding_.size() + reading_.size()); }
  int64_t positions() const { return positions_; }
  int64_t reused_tokens() const { return reused_tokens_; }  // of prompts: in pages of others
  int64_t pages() const { return pool_->pages(); }          // of the pool, as large as it is now
  int64_t pool_bytes() const { return pool_->bytes(); }
  int64_t pages_in_use() const;  // by sequences that run; the others are free, or kept
  const EngineOptions& options() const { return options_; }
  const GenerateTimes& times() const { return times_; }

 private:
  struct Sequence;
  using SequencePointer = std::unique_ptr<Sequence>;

  static size_t row_for(const std::vector<SequencePointer>& rows, int adapter);
  void begin_reading();
  bool begin_next();
  bool fits_beside(const Sequence& next, const KvSequence& pages) const;
  KvSequence shared_prefix(std::span<const int32_t> prompt, int adapter, const KeptPrefixes::Match& kept) const;
  bool has_pages(const KvSequence& first) const;
  void make_room(const KvCache& cache, int64_t tokens);
  void grow(int64_t positions, int64_t pages);
  void read(std::vector<EngineToken>& tokens);
  void end_reading(size_t row, const EngineToken& first);
  void decode(std::vector<EngineToken>& tokens);
  void leave(size_t row, bool kept);
  void keep(const Sequence& sequence, KvSequence pages);
  std::span<const float> download(const Tensor& logits);
  std::vector<int32_t> best_ids() const;
  EngineToken take(Sequence& sequence, int32_t id) const;
  EngineToken sample(Sequence& sequence, std::span<const float> logits, const RowTerms* terms) const;

  const Model& model_;
  EngineOptions options_;
  int64_t positions_, most_pages_;  // of a sequence; of the pool
  std::shared_ptr<KvPool> pool_;
  KvCache cache_, prompt_cache_;  // of the sequences that are decoded; of those that are read
  DecodeStep decode_step_;
  std::deque<SequencePointer> waiting_;
  std::vector<SequencePointer> reading_;   // by row of prompt_cache_: one with a long prompt, or some whose prompts fit into a chunk
  std::vector<SequencePointer> decoding_;  // by row of cache_
  KeptPrefixes kept_;
  std::vector<float> logits_;
  uint64_t next_ = 1;
  int64_t reused_tokens_ = 0;
  bool read_last_ = false;  // the last step read prompts
  GenerateTimes times_;

 public:
  ~Engine();
};

}  // namespace weft
