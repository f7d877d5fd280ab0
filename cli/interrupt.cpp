#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "weft/base/check.h"

namespace weft::cli {
namespace {

std::atomic<bool> interrupt = false, redraw = false;
std::atomic<int> presses = 0;  // of Ctrl-C that nobody has acted on
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");
int signals[2] = {-1, -1};  // a pipe with a byte for each signal: a flag alone could be set just before poll() and missed

void wake() {
  const int kept = errno;
  [[maybe_unused]] const auto written = ::write(signals[1], "", 1);  // a full pipe wakes too
  errno = kept;
}

extern "C" void on_chat_interrupt(int) {
  presses = interrupt.exchange(true) ? presses + 1 : 1;
  if (presses >= 3) ::_exit(130);
  wake();
}

extern "C" void on_chat_redraw(int) {
  redraw = true;
  wake();
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

std::atomic<bool>& interrupted() { return interrupt; }
bool take_redraw() { return redraw.exchange(false); }

void watch_signals() {
  check(::pipe(signals) == 0, "chat", "cannot make a pipe for signals");
  for (int end : signals) {
    ::fcntl(end, F_SETFL, O_NONBLOCK);
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
  }
  handle(SIGINT, on_chat_interrupt);
  handle(SIGCONT, on_chat_redraw);
  handle(SIGWINCH, on_chat_redraw);
}

bool wait_for_input() {
  pollfd files[] = {{STDIN_FILENO, POLLIN, 0}, {signals[0], POLLIN, 0}};  // a negative descriptor is ignored
  while (::poll(files, 2, -1) < 0)
    if (errno != EINTR) return true;  // read() reports what is wrong
  if (!(files[1].revents & POLLIN)) return true;
  for (char bytes[16]; ::read(signals[0], bytes, sizeof bytes) > 0;) {
  }
  return false;
}

}  // namespace weft::cli
