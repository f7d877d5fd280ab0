// One request on its way through the scheduler: what to compute, and the channel on which the results come back to the connection's thread.
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

// A new token of one continuation, or only its end (id -1).
struct TokenEvent {
  size_t choice;
  int32_t id;
  std::string text;  // that is certain now
  std::optional<TokenLogProbability> log_probability;
  std::optional<FinishReason> finished;
};

using PromptScores = std::vector<TokenLogProbability>;  // of the prompt's tokens from the second on

class Job {
 public:
  struct Sequence {
    std::shared_ptr<const std::vector<int32_t>> prompt;  // continuations of one prompt share it
    SequenceOptions options;
  };

  // Set before the job is submitted, then read by the scheduler alone.
  std::vector<Sequence> sequences;  // one per choice; a max_tokens of 0 is not computed
  std::vector<std::string> stop;
  std::vector<std::shared_ptr<const std::vector<int32_t>>> scored;  // prompts whose log-probabilities are wanted
  int64_t scored_top = 0;
  std::string adapter;     // of all its sequences; "": none
  bool answer = false;     // of a chat: the text starts with its first word, without the space before it
  int64_t unfinished = 0;  // the scheduler's: sequences and scored prompts that have not ended

  // The scheduler's side. Nothing waits for the reader: the scheduler ends a job of which too much is unread.
  void push(TokenEvent event);
  void push(PromptScores scores);
  void fail(ApiError error);  // the job has ended
  int64_t unread();           // tokens and log-probabilities that the reader has not taken

  // The reader's side: waits for new events, for at most `most`, and moves them to `events`. Throws the error of a failed job.
  void wait(std::chrono::milliseconds most, std::vector<TokenEvent>& events);
  // Complete once all sequences have ended.
  std::vector<PromptScores> scores();
  bool scores_ready();

  std::atomic<bool> cancelled = false;  // set by the reader; the scheduler removes the sequences

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<TokenEvent> events_;
  int64_t unread_ = 0;
  std::vector<PromptScores> scores_;
  std::optional<ApiError> error_;
};

}  // namespace weft::serve
