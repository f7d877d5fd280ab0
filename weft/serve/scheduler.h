// The loop that runs the model: takes requests from a queue, decodes them as one batch and sends the tokens to each. A device has one user
// at a time, so the model is used only by the thread that calls run().
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "weft/generate/engine.h"
#include "weft/serve/job.h"
#include "weft/serve/metrics.h"
#include "weft/serve/prompt_scores.h"
#include "weft/serve/sequence_text.h"

namespace weft::serve {

struct SchedulerOptions {
  EngineOptions engine = {};
  int64_t queue = 64;  // requests that may wait in addition to engine.sequences; further ones are refused
};

class Scheduler {
 public:
  // The model, the tokenizer (which may be null) and the metrics must outlive the scheduler.
  Scheduler(const Model& model, const Tokenizer* tokenizer, const SchedulerOptions& options, Metrics& metrics);
  ~Scheduler();

  // Queues a job, from any thread. Throws an ApiError: 429 if the queue is full, 503 after finish().
  void submit(std::shared_ptr<Job> job);
  // Removes a job whose reader has left.
  void cancel(Job& job);
  // Refuses further jobs; run() returns when all accepted ones have ended.
  void finish();
  // As finish(), and ends running jobs with an error.
  void abandon();

  void run();
  int64_t positions() const { return engine_.positions(); }

 private:
  struct Running {
    std::shared_ptr<Job> job;
    size_t choice;
    SequenceText text;
  };

  struct Ready {
    std::shared_ptr<Job> job;
    size_t next = 0;  // index of the next sequence for the engine
  };

  struct Scoring {
    std::shared_ptr<Job> job;
    size_t next = 0;  // index of the next prompt to score
  };

  bool idle() const { return engine_.idle() && scoring_.empty() && ready_.empty(); }
  bool take_jobs();
  void remove_cancelled();
  void fill_places();
  void begin(const std::shared_ptr<Job>& job, size_t choice);
  void score_chunk();
  void step();
  void deliver(const EngineToken& token);
  void end(std::unordered_map<uint64_t, Running>::iterator place, bool left);
  void fail_running(const ApiError& error);
  void count_done(Job& job, int64_t sequences = 1);
  void drop_cancelled();
  void publish();

  const Model& model_;
  const Tokenizer* tokenizer_;
  const SchedulerOptions options_;
  Metrics& metrics_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<Job>> inbox_;
  int64_t unfinished_ = 0;  // unfinished sequences and scored prompts of all accepted jobs
  int64_t jobs_ = 0;        // accepted jobs that have not ended
  bool finishing_ = false, abandoned_ = false;
  bool cancels_ = false;  // some job was cancelled

  // The members below are used by run()'s thread only.
  Engine engine_;
  const std::shared_ptr<KvPool> score_pool_;  // has pages for one prompt
  std::deque<Scoring> scoring_;               // round robin: one prompt of each job in turn
  std::optional<PromptScorer> scorer_;        // for the next prompt of scoring_.front()
  std::deque<Ready> ready_;                   // round robin: a job with many sequences does not block the others
  std::unordered_map<uint64_t, Running> running_;
};

}  // namespace weft::serve
