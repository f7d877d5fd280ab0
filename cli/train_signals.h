// Signals that stop a training run.
//
//   SIGINT (Ctrl-C), SIGTERM   save and end; a second one ends at once
//   SIGUSR1                    saves and ends, however often it comes: what mpirun forwards, and Slurm can send before a time limit
//   SIGHUP, SIGPIPE            the terminal is closed, or the reader of the output is gone: save and end without a message
#pragma once

#include <atomic>

namespace weft::cli {

// Set by the signals; passed to the trainer.
extern std::atomic<bool> stop_requested;

// Installs the handlers. Signals that the caller ignores (nohup) stay ignored. `ranks`: of the run; rank 0 alone prints messages.
void handle_train_signals(int rank, int ranks);

}  // namespace weft::cli
