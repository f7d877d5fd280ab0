// A generation request for the scheduler: what to compute, and a queue that returns the results to the connection's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weft/generate/engine.h"
#include "weft/serve/api_error.h"

namespace weft::serve {

// A new token of one continuation, or its end without a token (id -1).
struct TokenEvent {
  size_t choice;
  int32_t id;
  std::string text;  // the text that is final now: it may lag behind the tokens
  std::optional<TokenLogProbability> log_probability;
  std::optional<FinishReason> finished;
};

using PromptScores = std::vector<TokenLogProbability>;  // for the prompt's tokens from the second on

class Job {
 public:
  struct Sequence {
    std::shared_ptr<const std::vector<int32_t>> prompt;  // shared by the continuations of one prompt
    SequenceOptions options;
  };

  // Set before the job is submitted; after that only the scheduler reads them.
  std::vector<Sequence> sequences;  // one per choice; not run if max_tokens is 0
  std::vector<std::string> stop;
  std::vector<std::shared_ptr<const std::vector<int32_t>>> scored;  // prompts whose log-probabilities are returned
  int64_t scored_top = 0;
  std::string adapter;     // adapter of all sequences; "": none
  bool answer = false;     // the answer of a chat: the space before its first word is dropped
  int64_t unfinished = 0;  // for the scheduler: sequences and scored prompts that have not ended

  // Called by the scheduler. They never block: the scheduler ends a job of which too much is unread.
  void push(TokenEvent event);
  void push(PromptScores scores);
  void fail(ApiError error);  // ends the job with an error
  int64_t unread();           // tokens and log-probabilities in the queue

  // Called by the reader. Waits for new events, at most for `most`, and moves them to `events`. Throws the error of a failed job.
  void wait(std::chrono::milliseconds most, std::vector<TokenEvent>& events);
  // Complete once all sequences have ended.
  std::vector<PromptScores> scores();
  bool scores_ready();

  std::atomic<bool> cancelled = false;  // set by the reader; the scheduler then removes the sequences

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<TokenEvent> events_;
  int64_t unread_ = 0;
  std::vector<PromptScores> scores_;
  std::optional<ApiError> error_;
};

}  // namespace weft::serve
