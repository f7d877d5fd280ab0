// Threads of the HTTP server: one per connection, because cpp-httplib's sockets block. An idle or slow client costs a sleeping thread and
// delays nobody.
#pragma once

#include <httplib.h>

#include <condition_variable>
#include <functional>
#include <mutex>

namespace weft::serve {

class Connections : public httplib::TaskQueue {
 public:
  explicit Connections(int most) : most_(most) {}

  // void up to 0.14, bool later.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue(std::function<void()>()));

  // Starts a thread. Connections above the limit get one too, whose requests are refused (refused()); if there are too many of those,
  // accepting waits.
  Enqueued enqueue(std::function<void()> serve) override;
  void shutdown() override;  // waits for all threads

  // Whether the calling thread's connection is above the limit.
  static bool refused();

 private:
  void run(const std::function<void()>& serve, bool refused);

  const int most_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int open_ = 0;
};

}  // namespace weft::serve
