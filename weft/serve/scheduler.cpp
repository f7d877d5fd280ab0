#include "weft/serve/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "weft/serve/request.h"

namespace weft::serve {
namespace {

// Maximum unread tokens and log-probabilities of a stream, 10 to 100 bytes each; as many again may be in the process of being written.
constexpr int64_t kMostUnread = kMostLogProbabilities;

int64_t work_of(const Job& job) { return int64_t(job.sequences.size() + job.scored.size()); }

ApiError internal_error() {
  return api_error(500, "the model could not compute an answer; the server's log has the reason", "server_error");
}

void print_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
  }
}

}  // namespace

Scheduler::Scheduler(const Model& model, const Tokenizer* tokenizer, const SchedulerOptions& options, Metrics& metrics)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      metrics_(metrics),
      engine_(model, options.engine),
      score_pool_(model.make_pool(pages_for(engine_.positions()))) {}

Scheduler::~Scheduler() = default;

void Scheduler::submit(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  if (finishing_) throw stopping();
  if (jobs_ >= options_.engine.sequences + options_.queue)
    throw api_error(429, join("the queue is full: ", jobs_, " requests run or wait; try again later"), "rate_limit_error", "queue_full");
  job->unfinished = work_of(*job);
  unfinished_ += job->unfinished;
  ++jobs_;
  inbox_.push_back(std::move(job));
  work_.notify_one();
}

void Scheduler::cancel(Job& job) {
  job.cancelled = true;
  const std::lock_guard lock(mutex_);
  cancels_ = true;
  work_.notify_one();
}

void Scheduler::finish() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  work_.notify_one();
}

void Scheduler::abandon() {
  const std::lock_guard lock(mutex_);
  finishing_ = abandoned_ = true;
  work_.notify_one();
}

void Scheduler::run() {
  while (take_jobs()) {
    remove_cancelled();
    score_chunk();
    fill_places();
    step();
    publish();
  }
  fail_running(stopping());
  publish();
  const std::lock_guard lock(mutex_);
  for (const auto& job : inbox_) job->fail(stopping());
  inbox_.clear();
}

// Takes jobs from the inbox; waits if there is nothing else to do. False: run() must return.
bool Scheduler::take_jobs() {
  std::deque<std::shared_ptr<Job>> taken;
  {
    std::unique_lock lock(mutex_);
    if (idle()) work_.wait(lock, [&] { return !inbox_.empty() || finishing_ || cancels_; });
    if (abandoned_ || (finishing_ && idle() && inbox_.empty())) return false;
    taken.swap(inbox_);
  }
  for (auto& job : taken) {
    if (job->scored.empty())
      ready_.push_back({std::move(job)});
    else
      scoring_.push_back({std::move(job)});
  }
  return true;
}

void Scheduler::remove_cancelled() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(cancels_, false)) return;
  }
  for (auto place = running_.begin(); place != running_.end();) {
    const auto next = std::next(place);
    if (place->second.job->cancelled) end(place, false);
    place = next;
  }
  drop_cancelled();
}

// Removes cancelled jobs that wait. A client may leave at any time between two checks of its job.
void Scheduler::drop_cancelled() {
  std::erase_if(ready_, [this](const Ready& ready) {
    if (!ready.job->cancelled) return false;
    count_done(*ready.job, int64_t(ready.job->sequences.size() - ready.next));
    return true;
  });
  const std::shared_ptr<Job> first = scoring_.empty() ? nullptr : scoring_.front().job;
  std::erase_if(scoring_, [this](const Scoring& scoring) {
    if (!scoring.job->cancelled) return false;
    count_done(*scoring.job, scoring.job->unfinished);  // none of its sequences runs yet
    return true;
  });
  if (first && (scoring_.empty() || scoring_.front().job != first)) scorer_.reset();
}

// Adds sequences to the engine while it has room, one of each job in turn.
void Scheduler::fill_places() {
  while (!ready_.empty() && engine_.running() + engine_.waiting() < options_.engine.sequences) {
    Ready ready = std::move(ready_.front());
    ready_.pop_front();
    begin(ready.job, ready.next);
    if (++ready.next < ready.job->sequences.size()) ready_.push_back(std::move(ready));
  }
}

void Scheduler::begin(const std::shared_ptr<Job>& job, size_t choice) {
  const auto& [prompt, options] = job->sequences[choice];
  if (options.max_tokens == 0) {
    job->push(TokenEvent{choice, -1, "", {}, FinishReason::length});
    return count_done(*job);
  }
  try {
    const uint64_t id = engine_.add(*prompt, options);
    running_.emplace(id, Running{job, choice, SequenceText(tokenizer_, job->stop, job->answer)});
  } catch (const std::exception& error) {  // unexpected: the connection's thread has made the engine's checks
    std::fprintf(stderr, "weft: %s\n", error.what());
    job->fail(internal_error());
    count_done(*job);
  }
}

// Computes one chunk of a prompt's log-probabilities, so that decoding steps run in between. Jobs take turns prompt by prompt.
void Scheduler::score_chunk() {
  if (scoring_.empty()) return;
  const auto [job, next] = scoring_.front();
  try {
    if (!scorer_) scorer_.emplace(model_, score_pool_, job->scored[next], job->scored_top, job->adapter);
    if (!scorer_->done()) scorer_->step();
    if (!scorer_->done()) return;
    job->push(scorer_->take());
    scorer_.reset();
  } catch (const std::exception& error) {  // even out of memory: later requests may be smaller
    std::fprintf(stderr, "weft: %s\n", error.what());
    scorer_.reset();
    job->fail(internal_error());
    job->cancelled = true;
    return drop_cancelled();
  }
  count_done(*job);
  scoring_.pop_front();
  if (next + 1 < job->scored.size())
    scoring_.push_back({job, next + 1});
  else
    ready_.push_back({job});
}

void Scheduler::step() {
  if (engine_.idle()) return;
  try {
    for (const EngineToken& token : engine_.step()) deliver(token);
  } catch (...) {
    print_error(std::current_exception());
    fail_running(internal_error());
  }
}

void Scheduler::deliver(const EngineToken& token) {
  const auto place = running_.find(token.sequence);
  if (place == running_.end()) return;
  Running& running = place->second;
  if (token.error) {
    running.job->fail(internal_error());
    cancel(*running.job);  // its other sequences
    end(place, true);
    return print_error(token.error);
  }
  ++metrics_.new_tokens;
  TokenEvent event{running.choice, token.id, running.text.push(token.id), token.log_probability, token.finished};
  const bool stopped = running.text.stopped();
  if (stopped) event.finished = FinishReason::stop;
  if (event.finished) event.text += running.text.finish();
  const bool ended = event.finished.has_value();
  running.job->push(std::move(event));
  if (!ended && running.job->unread() > kMostUnread) {
    running.job->fail(api_error(503, "the client reads more slowly than the server's memory allows", "server_error", "slow_reader"));
    cancel(*running.job);
  }
  if (ended) end(place, token.finished.has_value());
}

// Ends a sequence. `left`: the engine has already removed it.
void Scheduler::end(std::unordered_map<uint64_t, Running>::iterator place, bool left) {
  if (!left) engine_.remove(place->first);
  const std::shared_ptr<Job> job = std::move(place->second.job);
  running_.erase(place);
  count_done(*job);
}

void Scheduler::count_done(Job& job, int64_t sequences) {
  const std::lock_guard lock(mutex_);
  unfinished_ -= sequences;
  job.unfinished -= sequences;
  if (job.unfinished == 0) --jobs_;
}

// Fails the jobs before it removes their sequences: after a failed step, removing may fail too.
void Scheduler::fail_running(const ApiError& error) {
  const auto running = std::exchange(running_, {});
  for (const auto& [id, each] : running) each.job->fail(error);
  for (const Scoring& scoring : std::exchange(scoring_, {})) scoring.job->fail(error);
  for (const Ready& ready : std::exchange(ready_, {})) ready.job->fail(error);
  scorer_.reset();
  try {
    for (const auto& [id, each] : running) engine_.remove(id);
  } catch (...) {
    print_error(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  unfinished_ = 0;
  jobs_ = int64_t(inbox_.size());
  for (const auto& job : inbox_) unfinished_ += work_of(*job);
}

void Scheduler::publish() {
  metrics_.running = engine_.running();
  metrics_.reused_tokens = engine_.reused_tokens();
  const std::lock_guard lock(mutex_);
  metrics_.waiting = unfinished_ - engine_.running();
}

}  // namespace weft::serve
