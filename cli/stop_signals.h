// Ctrl-C and SIGTERM of a server: the first asks it to finish, the second to give up what runs, the third ends the process.
#pragma once

#include <functional>
#include <thread>

namespace weft::cli {

class StopSignals {
 public:
  // `finish` is called at the first signal; `give_up` at the second one or after `seconds`. If the object still lives some seconds later,
  // the process ends with exit code 0: only connections that do not read their answers are left.
  StopSignals(std::function<void()> finish, std::function<void()> give_up, int seconds);
  ~StopSignals();

 private:
  void watch(int seconds);

  std::function<void()> finish_, give_up_;
  std::thread watching_;
};

}  // namespace weft::cli
