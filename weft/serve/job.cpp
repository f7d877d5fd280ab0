#include "weft/serve/job.h"

#include <iterator>

namespace weft::serve {

void Job::push(TokenEvent event) {
  const std::lock_guard lock(mutex_);
  unread_ += 1 + int64_t(event.log_probability ? event.log_probability->top.size() : 0);
  events_.push_back(std::move(event));
  news_.notify_one();
}

void Job::push(PromptScores scores) {
  const std::lock_guard lock(mutex_);
  scores_.push_back(std::move(scores));
  news_.notify_one();
}

void Job::fail(ApiError error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  news_.notify_one();
}

int64_t Job::unread() {
  const std::lock_guard lock(mutex_);
  return unread_;
}

void Job::wait(std::chrono::milliseconds most, std::vector<TokenEvent>& events) {
  std::unique_lock lock(mutex_);
  const size_t scores = scores_.size();
  news_.wait_for(lock, most, [&] { return !events_.empty() || error_ || scores_.size() > scores; });
  std::move(events_.begin(), events_.end(), std::back_inserter(events));
  events_.clear();
  unread_ = 0;
  if (error_ && events.empty()) throw *error_;
}

bool Job::scores_ready() {
  const std::lock_guard lock(mutex_);
  return scores_.size() == scored.size();
}

std::vector<PromptScores> Job::scores() {
  const std::lock_guard lock(mutex_);
  return scores_;
}

}  // namespace weft::serve
