#include "weft/comm/mpi/process.h"

#include <unistd.h>

#ifdef __linux__
#include <sys/uio.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "weft/base/check.h"

namespace weft::mpi {
namespace {

struct State {
  bool running = false;  // between MPI_Init and MPI_Finalize
  pid_t process = 0;     // a forked child has no MPI
  int rank = 0;
  std::chrono::seconds timeout{600};
} state;

void print(const std::string& message) {
  const std::string line = "weft: " + message + "\n";  // one write: lines of several ranks do not mix
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void at_exit(int status) {
  if (!state.running || getpid() != state.process) return;
  if (status == 0)
    end(state.timeout);
  else
    abort_all(status);
}

#ifdef __GLIBC__
void call_at_exit() {
  on_exit([](int status, void*) { at_exit(status); }, nullptr);
}
#else
void call_at_exit() {
  std::atexit([] { at_exit(EXIT_FAILURE); });
}
#endif

// MPI sees another number of processes than the launcher has started: it is not the launcher's MPI, or srun was not told to use MPI.
[[noreturn]] void fail_on_size(const Launch& launch, const std::string& seen) {
  const char* const how = launch.by == "srun" ? "use srun --mpi=pmix (or --mpi=pmi2; srun --mpi=list prints what this cluster has)"
                                              : "use the mpirun of the MPI that this build was made with";
  fail(ErrorCode::unsupported, "MPI", launch.by, " started ", launch.size, " processes", seen, ": ", how);
}

// srun started the processes and nothing that MPI can ask for the others: MPI_Init would end each of them with two screens of text.
void expect_process_manager(const Launch& launch) {
  if (launch.by != "srun") return;
  for (char** variable = environ; *variable; ++variable)
    if (std::string_view(*variable).starts_with("PMI")) return;  // PMIX_RANK, PMI_FD, PMI_CONTROL_PORT
  fail(ErrorCode::unsupported, "MPI", "srun started ", launch.size, " processes without PMIx: use srun --mpi=pmix (srun --mpi=list prints ",
       "what this cluster has), or mpirun");
}

// Open MPI copies between the processes of a host with process_vm_readv. Containers often forbid it; Open MPI then prints a line for every
// message and copies through shared memory, which it does silently if it is told to.
void choose_local_copies() {
#if defined(__linux__) && defined(OPEN_MPI)
  char from = 1, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1) return;
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);  // Open MPI 4
  setenv("OMPI_MCA_smsc", "^cma", 0);                             // Open MPI 5
#endif
}

}  // namespace

Watchdog::Watchdog(std::chrono::milliseconds limit, std::string message)
    : thread_([this, limit, message = std::move(message)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
        print(message);
        std::_Exit(EXIT_FAILURE);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void start(const Launch& launch, std::chrono::seconds timeout) {
  expect_process_manager(launch);
  const Library& mpi = library();
  int already = 0;
  mpi.Initialized(&already);
  check(!already, "MPI", "MPI_Init was called before open_communicator, expected one call of open_communicator and none of MPI_Init");
  choose_local_copies();
  {
    // Ranks wait a little longer one after the other: one of them prints.
    const auto limit = std::chrono::milliseconds(timeout) + std::chrono::milliseconds(100 * std::min(launch.rank, 20));
    const Watchdog watch(limit, join("rank ", launch.rank, " of ", launch.size, ": MPI_Init did not finish within ", timeout.count(),
                                     " s (--timeout): not all ranks have started"));
    int provided = 0;
    check(mpi.Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS, "MPI", "MPI_Init failed");
  }
  int rank = 0, size = 0;
  mpi.Comm_rank(mpi.comm_world, &rank);
  mpi.Comm_size(mpi.comm_world, &size);
  if (size != launch.size || rank != launch.rank) {
    mpi.Finalize();
    fail_on_size(launch, join(", but ", version(), " sees ", size));
  }
  mpi.Comm_set_errhandler(mpi.comm_world, mpi.errors_return);  // we print
  state = {true, getpid(), rank, timeout};
  static const bool once = (call_at_exit(), true);
  (void)once;
}

void end(std::chrono::seconds timeout) {
  if (!state.running) return;
  const Watchdog watch(timeout, join("rank ", state.rank, ": MPI_Finalize did not finish within ", timeout.count(), " s (--timeout)"));
  state.running = false;
  library().Finalize();
}

void abort_all(int status) {
  std::fflush(stdout);
  std::fflush(stderr);
  if (state.running && getpid() == state.process) {
    state.running = false;
    const Watchdog watch(std::chrono::seconds(5), "MPI_Abort did not end this process");
    library().Abort(library().comm_world, status);
  }
  std::_Exit(status);
}

void abort_with(const std::string& message) {
  print(message);
  abort_all(EXIT_FAILURE);
}

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  library().Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

void expect_success(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    abort_with(join("rank ", state.rank, ": ", call, " failed: ", text_of(code)));
}

}  // namespace weft::mpi
