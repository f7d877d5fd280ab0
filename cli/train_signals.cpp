#include "cli/train_signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace weft::cli {

std::atomic<bool> stop_requested = false;

namespace {

// mpirun answers Ctrl-C with SIGTERM for its processes and, a second later, SIGKILL: there is no promise to save.
constexpr const char* kAlone = "\nstopping and saving the last finished step; press Ctrl-C again to stop at once\n";
constexpr const char* kRanks =
    "\nstopping after this step; it is saved if the launcher waits (mpirun kills its processes a second after Ctrl-C or SIGTERM; "
    "SIGUSR1 to mpirun saves and ends)\n";
constexpr const char* kSaving = "\nSIGUSR1: saving the last finished step and ending\n";

std::atomic<int> interrupts = 0;
const char* interrupt_text = kAlone;
const char* saving_text = kSaving;

void print(const char* text) { [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text)); }

extern "C" void on_interrupt(int) {
  stop_requested = true;
  if (interrupts.fetch_add(1) > 0) ::_exit(130);
  print(interrupt_text);
}

extern "C" void on_save(int) {
  if (!stop_requested.exchange(true)) print(saving_text);
}

extern "C" void on_hangup(int) { stop_requested = true; }

void on_signal(int signal, void (*handler)(int)) {
  if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
}

}  // namespace

void handle_train_signals(int rank, int ranks) {
  if (ranks > 1) interrupt_text = rank == 0 ? kRanks : "";
  if (rank > 0) saving_text = "";
  on_signal(SIGINT, on_interrupt);
  on_signal(SIGTERM, on_interrupt);
  on_signal(SIGUSR1, on_save);
  on_signal(SIGHUP, on_hangup);
  on_signal(SIGPIPE, on_hangup);
  std::signal(SIGXFSZ, SIG_IGN);  // at the file size limit write() fails; the process is not killed
}

}  // namespace weft::cli
