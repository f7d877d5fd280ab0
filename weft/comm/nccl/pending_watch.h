// A thread that watches a queue of work on a device, and acts if the oldest piece takes too long or can never be done.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace weft {

class PendingWatch {
 public:
  // A piece of work. Both are called by the watch's thread.
  class Work {
   public:
    virtual ~Work() = default;
    virtual bool started() const = 0;  // from then on its time counts
    virtual bool done() const = 0;
  };

  // Called by the watch's thread.
  struct Actions {
    // Called at least every 50 ms; `waiting`: the oldest work has started. Returns why work can never be done, or "".
    std::function<std::string(bool waiting)> look;
    std::function<void(const std::string&)> trouble;  // gets what look() returned; the thread ends
    std::function<void(const Work&)> late;            // the oldest work was not done within the timeout; the thread ends
  };

  // The time for which this process itself was stopped does not count.
  PendingWatch(std::chrono::milliseconds timeout, Actions actions);
  ~PendingWatch();

  // Work is done in the order in which it is added.
  void add(std::shared_ptr<const Work> work);

  // A call that may block, for as long as this object lives.
  class Call {
   public:
    explicit Call(PendingWatch& watch);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    class Running;
    const std::shared_ptr<Running> running_;
  };

 private:
  std::shared_ptr<const Work> oldest();  // that is not done
  void run();

  const std::chrono::milliseconds timeout_;
  const Actions actions_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<std::shared_ptr<const Work>> pending_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace weft
