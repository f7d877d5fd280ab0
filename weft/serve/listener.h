// Accepts connections, each in a thread of its own: cpp-httplib's requests block. An idle or slow client costs a sleeping thread and delays
// nobody.
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
  using Serve = std::function<void(Connection&)>;  // answers requests until wait_for_request() returns false

  // `most`: connections at once. Further ones, a few at a time, are accepted and answered with 503.
  Listener(int most, const ConnectionLimits& limits, Serve serve);
  ~Listener();

  int bind(const std::string& host, int port);  // the port; 0: any free one. Throws, naming both, if it is not free
  void start();
  void stop();             // accepts no more and ends idle connections
  void join();             // after stop(): waits for the others
  void serve(int socket);  // a connection that was accepted elsewhere, in this thread

 private:
  void accept_all();
  bool wait_for_room();
  void accept_one();
  void run(int socket, bool refused);

  const int most_;
  const ConnectionLimits limits_;
  const Serve serve_;
  int socket_ = -1;
  int stop_[2] = {-1, -1};  // a pipe: closing the second end wakes all that wait
  std::thread accepting_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int open_ = 0;
  bool stopping_ = false;
};

}  // namespace weft::serve
