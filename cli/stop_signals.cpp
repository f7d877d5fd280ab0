#include "cli/stop_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "weft/base/check.h"

namespace weft::cli {
namespace {

constexpr int kLastSeconds = 2;  // time to send errors to the clients of abandoned requests
int notices[2] = {-1, -1};       // a pipe: 's' for each signal, 'e' from the destructor

void notice(char byte) {
  const int kept = errno;
  [[maybe_unused]] const auto written = ::write(notices[1], &byte, 1);
  errno = kept;
}

extern "C" void on_stop_signal(int) { notice('s'); }

void handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

// The next byte of the pipe, or 0 after `seconds`; -1: no limit.
char next(int seconds) {
  pollfd pipe = {notices[0], POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&pipe, 1, seconds < 0 ? -1 : seconds * 1000)) < 0 && errno == EINTR) {
  }
  char byte = 0;
  return ready > 0 && ::read(notices[0], &byte, 1) == 1 ? byte : 0;
}

}  // namespace

StopSignals::StopSignals(std::function<void()> finish, std::function<void()> give_up, int seconds)
    : finish_(std::move(finish)), give_up_(std::move(give_up)) {
  check(::pipe(notices) == 0, "serve", "cannot make a pipe for signals");
  for (int end : notices) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  ::fcntl(notices[1], F_SETFL, O_NONBLOCK);
  handle(on_stop_signal);
  watching_ = std::thread([this, seconds] { watch(seconds); });
}

StopSignals::~StopSignals() {
  handle(SIG_DFL);
  notice('e');
  watching_.join();
}

void StopSignals::watch(int seconds) {
  if (next(-1) == 'e') return;
  finish_();
  if (next(seconds) == 'e') return;
  handle(SIG_DFL);
  give_up_();
  if (next(kLastSeconds) == 'e') return;
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace weft::cli
