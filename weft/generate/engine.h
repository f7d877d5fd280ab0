// Decodes many sequences of one model as a batch; sequences join and leave between steps (continuous batching). Used by generate,
// evaluation, chat and the server.
//
//   Engine engine(*model, {.sequences = 8});
//   const uint64_t first = engine.add({1, 2, 3}, {.max_tokens = 20});
//   while (!engine.idle())
//     for (const EngineToken& token : engine.step()) std::printf("%d\n", token.id);
//
// Prefill runs between decoding steps: a chunk of one long prompt, or several short prompts in one pass. Keys and values are in the pages
// of one pool (weft/nn/kv_pool.h). A sequence is admitted when the pool has pages for its longest possible length, so it never runs out of
// pages later. The pool is allocated at the start, or grows with the sequences (EngineOptions::grows). A prompt that shares a prefix with a
// sequence in the engine, or with a finished one (EngineOptions::keep), uses the pages of that prefix instead of computing them.
//
// A token depends only on its own sequence (prompt, options and occurrence): not on the other sequences, the chunks, shared pages or the
// time at which the sequence joined (docs/numerics.md).
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

enum class FinishReason { eos, stop, length, stopped };  // stop: a stop string; stopped: stopped by the caller
std::string_view name(FinishReason reason);

struct EngineOptions {
  int64_t sequences = 8;       // maximum batch of a decoding step; further sequences wait
  int64_t positions = 0;       // maximum length of a sequence with its prompt; 0: the model's context
  int64_t prompt_chunk = 512;  // maximum prompt tokens read between two decoding steps
  int64_t pool = 0;            // positions in the pool, rounded up to whole pages; 0: `sequences` times `positions`
  bool keep = false;           // keep the pages of finished sequences until others need them, for prompts with the same prefix
  bool grows = false;          // start with a small pool and double it as sequences need more, up to `pool`
};

struct SequenceOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;             // new tokens; 0: as many as fit
  std::vector<int32_t> end_ids = {};  // any of these ends the sequence
  uint32_t occurrence = 0;            // number of earlier continuations of the same prompt; each is sampled differently
  bool log_probabilities = false;     // return the log-probability of each new token
  int64_t top_log_probabilities = 0;  // also return those of this many most likely tokens; needs log_probabilities
  std::string adapter = {};           // one of Model::named_adapters(); empty: none
};

// Throws if an option is out of range; the error names the option and its value.
void check_options(const SequenceOptions& options);
// The same; also throws if the prompt is empty, has ids outside the vocabulary or does not fit into `positions` together with max_tokens.
// `what` is the prompt's name in the error.
void check_sequence(const Model& model, std::string_view what, std::span<const int32_t> prompt, const SequenceOptions& options,
                    int64_t positions);

struct EngineToken {
  uint64_t sequence;
  int32_t id;
  std::optional<FinishReason> finished = {};  // eos or length: the sequence has left the engine
  std::optional<TokenLogProbability> log_probability = {};
  std::exception_ptr error = {};  // sampling failed (such as on NaN logits), and the sequence has left the engine

  bool left() const { return finished || error; }
};

struct GenerateTimes {
  int64_t prompts = 0, prompt_tokens = 0, step_tokens = 0;  // prompt_tokens: only those computed, without reused ones
  double prompt_seconds = 0;                                // prefill, with the first new token of each prompt
  double step_seconds = 0;                                  // decoding of all later tokens
  GenerateTimes since(const GenerateTimes& earlier) const;
  // New tokens per second, not counting the first token of each prompt unless there are no others.
  double tokens_per_second() const;
};

class Engine {
 public:
  // The model must outlive the engine.
  explicit Engine(const Model& model, const EngineOptions& options = {});

  // Queues a sequence and returns its number. Sequences are admitted in the order of calls, when a row of the batch and enough pages are
  // free. Throws as check_sequence does, and if the sequence does not fit into an empty pool.
  uint64_t add(std::vector<int32_t> prompt, const SequenceOptions& options);
  // Removes a sequence, waiting or running. Does nothing if the engine has no sequence of this number.
  void remove(uint64_t sequence);

  // Alternates between prefill (a chunk of one prompt, or several short prompts) and decoding one token of every sequence whose prompt has
  // been read. Returns the new tokens. If it throws, every sequence is as before the call.
  std::vector<EngineToken> step();

  bool idle() const { return waiting_.empty() && reading_.empty() && decoding_.empty(); }
  int64_t waiting() const { return int64_t(waiting_.size()); }
  int64_t running() const { return int64_t(decoding_.size() + reading_.size()); }
  int64_t positions() const { return positions_; }
  int64_t reused_tokens() const { return reused_tokens_; }  // prompt tokens found in pages of other sequences
  int64_t pages() const { return pool_->pages(); }          // current size of the pool
  int64_t pool_bytes() const { return pool_->bytes(); }
  int64_t pages_in_use() const;  // by running sequences; the other pages are free or kept
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
  int64_t positions_, most_pages_;  // maximum length of a sequence; maximum size of the pool
  std::shared_ptr<KvPool> pool_;
  KvCache cache_, prompt_cache_;  // of the sequences in `decoding_`; of those in `reading_`
  DecodeStep decode_step_;
  std::deque<SequencePointer> waiting_;
  std::vector<SequencePointer> reading_;   // by row of prompt_cache_: one long prompt, or several that fit into one chunk
  std::vector<SequencePointer> decoding_;  // by row of cache_
  KeptPrefixes kept_;
  std::vector<float> logits_;
  uint64_t next_ = 1;
  int64_t reused_tokens_ = 0;
  bool read_last_ = false;  // the last step was prefill
  GenerateTimes times_;

 public:
  ~Engine();
};

}  // namespace weft
