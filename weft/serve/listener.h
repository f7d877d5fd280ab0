// Accepts connections and serves each in its own thread, because cpp-httplib's calls block. An idle or slow client occupies a sleeping
// thread and does not delay others.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "weft/serve/connection.h"

namespace weft::serve {

class Listener {
 public:
  using Serve = std::function<void(Connection&)>;  // serves requests until wait_for_request() returns false

  // `most`: maximum number of open connections. A few connections beyond it are accepted and answered with 503.
  Listener(int most, const ConnectionLimits& limits, Serve serve);
  ~Listener();

  int bind(const std::string& host, int port);  // returns the port (0: any free one); throws with both if it cannot listen there
  void start();
  void stop();             // accepts no further connections and ends idle ones
  void join();             // after stop(): waits until all connections have ended
  void serve(int socket);  // serves a connection accepted elsewhere, in the calling thread

 private:
  void accept_all();
  bool wait_for_room();
  void accept_one();
  void run(int socket, bool refused);

  const int most_;
  const ConnectionLimits limits_;
  const Serve serve_;
  int socket_ = -1;
  int stop_[2] = {-1, -1};  // a pipe; closing its write end wakes all waiting connections
  std::thread accepting_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int open_ = 0;
  bool stopping_ = false;
};

}  // namespace weft::serve
