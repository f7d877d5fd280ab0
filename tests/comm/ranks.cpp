// A program of several ranks, run under mpirun by ranks.py:  ranks TIMEOUT moves | stop RANK | ...
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/comm/moves.h"
#include "weft/base/check.h"
#include "weft/comm/cores.h"
#include "weft/comm/launch.h"

namespace weft {
namespace {

// All wait for rank `lost`: rank 0 directly, the others for rank 0, which answers a roll call itself.
void wait_in_a_chain(Communicator& ranks, int lost) {
  char byte = 0;
  if (ranks.first()) {
    const HostIncoming in{lost, std::as_writable_bytes(std::span(&byte, 1))};
    ranks.exchange({}, std::span(&in, 1));
  }
  ranks.broadcast(std::as_writable_bytes(std::span(&byte, 1)), 0);
}

// Rank 0 sends another number of bytes than rank 1 expects.
void wrong_size(Communicator& ranks, size_t sent, size_t expected) {
  std::vector<std::byte> bytes(std::max(sent, expected));
  const HostOutgoing out{1, std::span(bytes).first(sent)};
  const HostIncoming in{0, std::span(bytes).first(expected)};
  if (ranks.first()) ranks.exchange(std::span(&out, 1), {});
  if (ranks.rank() == 1) ranks.exchange({}, std::span(&in, 1));
  ranks.barrier();
}

// Every rank waits for a message that nobody sends.
void wait_for_each_other(Communicator& ranks) {
  char byte = 0;
  const HostIncoming in{(ranks.rank() + 1) % ranks.size(), std::as_writable_bytes(std::span(&byte, 1))};
  ranks.exchange({}, std::span(&in, 1));
}

// Rank 1 works for longer than the timeout and sends a few signs of life; meanwhile rank 0 sends it many messages, which it receives
// later.
void send_signs_of_life(Communicator& ranks) {
  constexpr int kMany = 300, kSigns = 40;
  const std::vector<std::byte> sign(48);
  std::vector<std::byte> into(48);
  const auto send = [&](int to) { ranks.exchange(std::vector<HostOutgoing>{{to, sign}}, {}); };
  const auto receive = [&](int from) { ranks.exchange({}, std::vector<HostIncoming>{{from, into}}); };
  for (int i = 0; i < kMany && ranks.rank() == 0; ++i) send(1);
  for (int i = 0; i < kSigns && ranks.rank() == 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    send(0);
  }
  for (int i = 0; i < kSigns && ranks.rank() == 0; ++i) receive(1);
  for (int i = 0; i < kMany && ranks.rank() == 1; ++i) receive(0);
}

void print_cores(Communicator& ranks, int threads) {
  const int use = share_cores(ranks, threads);
  const std::vector<std::string> all = ranks.all_gather(join("rank ", ranks.rank(), " cores ", comm_test::bound_cores(), " threads ", use));
  if (ranks.first())
    for (const std::string& line : all) std::printf("%s\n", line.c_str());
}

// As many containers do.
void forbid_process_vm_readv() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, filter};
  check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "ranks", "no seccomp");
}

int run(int timeout, const std::string& what, int number, int other) {
  const Launch launch = launch_of_environment();
  if (what == "moves" && number == 2) forbid_process_vm_readv();
  if (what == "stop-before" && launch.rank == number) std::raise(SIGSTOP);
  const std::unique_ptr<Communicator> ranks = open_communicator({.timeout = std::chrono::seconds(timeout)});
  check(ranks->rank() == launch.rank && ranks->size() == launch.size, "ranks", "rank ", ranks->rank(), " of ", ranks->size());
  const bool chosen = ranks->rank() == number;
  if (what == "moves") {
    comm_test::check_host_moves(*ranks);
    comm_test::check_transfers(*ranks, "cpu");
    if (number == 1) comm_test::check_transfers(*ranks, "metal-sim");
    if (ranks->first()) std::printf("%s on %s: all moves are right\n", ranks->description().c_str(), ranks->host(0).c_str());
  } else if (what == "time") {
    comm_test::print_times(*ranks);
  } else if (what == "stop" || what == "kill") {
    ranks->barrier();
    if (chosen) std::raise(what == "stop" ? SIGSTOP : SIGKILL);
    ranks->barrier();
  } else if (what == "stop-chain") {
    if (chosen) std::raise(SIGSTOP);
    wait_in_a_chain(*ranks, number);
  } else if (what == "throw") {
    ranks->barrier();
    if (chosen) fail(ErrorCode::invalid_argument, "ranks", "an error of rank ", number);
    ranks->barrier();
  } else if (what == "exit") {
    if (chosen) std::exit(7);
    ranks->barrier();
  } else if (what == "abort") {
    if (chosen) ranks->abort(9);
    ranks->barrier();
  } else if (what == "sizes") {
    wrong_size(*ranks, size_t(number), size_t(other));
  } else if (what == "signs") {
    send_signs_of_life(*ranks);
  } else if (what == "deadlock") {
    wait_for_each_other(*ranks);
  } else if (what == "cores") {
    print_cores(*ranks, number);
  } else {
    fail(ErrorCode::invalid_argument, "ranks", "unknown check '", what, "'");
  }
  return 0;
}

}  // namespace
}  // namespace weft

int main(int count, char** arguments) {
  try {
    const auto number = [&](int i) { return i < count ? std::atoi(arguments[i]) : 0; };
    return weft::run(number(1), count > 2 ? arguments[2] : "", number(3), number(4));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks: %s\n", error.what());
    return 3;
  }
}
