// Ctrl-C during a chat: a flag that the signal handler sets and the work reads.
#pragma once

#include <atomic>

namespace weft::cli {

// Set by Ctrl-C; whoever acts on it clears it. The third one before that ends the process.
std::atomic<bool>& interrupted();

// Installs the handlers of SIGINT, and of SIGCONT and SIGWINCH, after which a line being edited is drawn again.
void watch_signals();

// Waits until standard input can be read (true) or one of the signals has come (false), whichever thread the signal went to.
bool wait_for_input();

// Whether the process was continued or the window was resized since the last call.
bool take_redraw();

}  // namespace weft::cli
