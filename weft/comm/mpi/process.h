// MPI in this process: started once, ended once, and never waited for longer than the timeout.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "weft/comm/launch.h"
#include "weft/comm/mpi/library.h"

namespace weft::mpi {

// Calls MPI_Init_thread. If the process later exits without end(), an exit handler aborts all ranks with its exit status, so that none
// waits for it. Throws if MPI does not see the processes that `launch` has started.
void start(const Launch& launch, std::chrono::seconds timeout);

// Calls MPI_Finalize, once.
void end(std::chrono::seconds timeout);

// Ends all ranks.
[[noreturn]] void abort_all(int status);

// Prints "weft: <message>" and ends all ranks.
[[noreturn]] void abort_with(const std::string& message);

// Ends all ranks with a message if a call has failed: MPI need not work after an error.
void expect_success(int code, const char* call);
std::string text_of(int code);

// Prints a message and ends the process with exit status 1 if it lives longer than `limit`: for calls that cannot be polled.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds limit, std::string message);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace weft::mpi
