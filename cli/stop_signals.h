// Ctrl-C and SIGTERM of a server: the first signal stops accepting requests, the second abandons those that run, the third ends the
// process.
#pragma once

#include <functional>
#include <thread>

namespace weft::cli {

class StopSignals {
 public:
  // Calls `finish` at the first signal and `give_up` at the second, or `seconds` after the first. If the object is not destroyed some
  // seconds later, the process ends with exit code 0: only connections that do not read their answers are left.
  StopSignals(std::function<void()> finish, std::function<void()> give_up, int seconds);
  ~StopSignals();

 private:
  void watch(int seconds);

  std::function<void()> finish_, give_up_;
  std::thread watching_;
};

}  // namespace weft::cli
