#include "weft/comm/nccl/pending_watch.h"

#include <algorithm>
#include <atomic>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// A look costs microseconds; timeouts are seconds or minutes.
constexpr std::chrono::milliseconds kLongestPause{50};
// Counted of one pause at most: while this process was stopped, no other was late.
constexpr std::chrono::seconds kLongestStep{1};

}  // namespace

class PendingWatch::Call::Running : public Work {
 public:
  bool started() const override { return true; }
  bool done() const override { return returned; }
  std::atomic<bool> returned = false;
};

PendingWatch::Call::Call(PendingWatch& watch) : running_(std::make_shared<Running>()) { watch.add(running_); }
PendingWatch::Call::~Call() { running_->returned = true; }

PendingWatch::PendingWatch(std::chrono::milliseconds timeout, Actions actions)
    : timeout_(timeout), actions_(std::move(actions)), thread_([this] { run(); }) {}

PendingWatch::~PendingWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void PendingWatch::add(std::shared_ptr<const Work> work) {
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(work));
}

std::shared_ptr<const PendingWatch::Work> PendingWatch::oldest() {
  const std::lock_guard lock(mutex_);
  while (!pending_.empty() && pending_.front()->done()) pending_.pop_front();
  return pending_.empty() ? nullptr : pending_.front();
}

void PendingWatch::run() {
  const auto pause = std::clamp(timeout_ / 10, std::chrono::milliseconds(1), kLongestPause);
  std::shared_ptr<const Work> watched;
  Clock::duration waited{};  // for `watched`, since it was first seen started
  Clock::time_point last = Clock::now();
  while (true) {
    const Clock::time_point now = Clock::now();
    const Clock::duration step = std::min<Clock::duration>(now - last, kLongestStep);
    last = now;
    std::shared_ptr<const Work> found = oldest();
    const bool waiting = found && found->started();
    waited = waiting && found == watched ? waited + step : Clock::duration{};
    watched = std::move(found);
    if (const std::string why = actions_.look(waiting); !why.empty()) return actions_.trouble(why);
    if (waited > timeout_) return actions_.late(*watched);
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, pause, [this] { return over_; })) return;
  }
}

}  // namespace weft
