#include "weft/comm/launch.h"

#include <charconv>
#include <cstdlib>
#include <cctype>
#include <cstring>
#include <thread>

#include "weft/base/check.h"
#include "weft/comm/mpi/mpi_communicator.h"
#include "weft/comm/on_device.h"

namespace weft {
namespace {

using Environment = std::function<const char*(const char*)>;

constexpr const char* kHydraRank = "PMI_RANK";

// The variables of one launcher. `local_size` may be null: not told.
struct Variables {
  const char *by, *rank, *size, *local_rank, *local_size;
};

// mpirun first: it may run inside an srun step or a batch script. SLURM_STEP_NUM_TASKS, unlike SLURM_NTASKS, is the number of processes
// that srun has started, so a batch script's own commands are not taken for ranks.
constexpr Variables kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", kHydraRank, "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
};

// Whether Hydra's variables repeat srun's. Hydra itself starts one process per node with srun: other numbers.
bool started_by_srun(const Environment& getenv) {
  const auto same = [&](const char* a, const char* b) { return getenv(a) && getenv(b) && std::strcmp(getenv(a), getenv(b)) == 0; };
  return same("PMI_SIZE", "SLURM_STEP_NUM_TASKS") && same(kHydraRank, "SLURM_PROCID");
}

int number(const char* variable, const char* text, int least, int most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  check(error == std::errc() && stop == end && value >= least && value <= most, "launch", "the environment variable ", variable, " is '",
        text, "', expected a number from ", least, " to ", most);
  return value;
}

// SLURM_STEP_TASKS_PER_NODE is "4", "4(x3)" or "2(x2),1" over the nodes; SLURM_NODEID is the index of this one.
int slurm_local_size(const Environment& getenv) {
  const char *tasks = getenv("SLURM_STEP_TASKS_PER_NODE"), *node = getenv("SLURM_NODEID");
  if (!tasks || !node) return 1;
  int left = std::atoi(node);
  for (const char* at = tasks; *at; at += *at == ',') {
    char* end = nullptr;
    const long count = std::strtol(at, &end, 10);
    if (end == at) return 1;
    int nodes = 1;
    at = end;
    if (std::strncmp(at, "(x", 2) == 0) {
      nodes = int(std::strtol(at + 2, &end, 10));
      at = *end == ')' ? end + 1 : end;
    }
    if (left < nodes) return int(std::max(1L, std::min(count, 1L << 20)));
    left -= nodes;
    if (*at && *at != ',') return 1;
  }
  return 1;
}

#ifdef WEFT_HAS_MPI
std::unique_ptr<Communicator> open_mpi(const Launch& launch, const CommunicatorOptions& options) { return mpi::open(launch, options); }

EngineEntry mpi_entry() {
  try {
    return {"MPI", true, mpi::version()};
  } catch (const Error& error) {
    return {"MPI", false, error.what()};
  }
}
#else
std::unique_ptr<Communicator> open_mpi(const Launch& launch, const CommunicatorOptions&) {
  fail(ErrorCode::unsupported, "communicator", launch.by, " started ", launch.size,
       " processes, but this build has no MPI: configure it where MPI is installed (libopenmpi-dev), with WEFT_MPI=ON");
}

EngineEntry mpi_entry() { return {"MPI", false, "not part of this build"}; }
#endif

}  // namespace

Launch launch_of_environment(const Environment& getenv) {
  constexpr int kMost = 1 << 20;
  for (const Variables& v : kLaunchers) {
    const char *rank = getenv(v.rank), *size = getenv(v.size);
    if (!rank || !size || (v.rank == kHydraRank && started_by_srun(getenv))) continue;
    Launch launch;
    launch.by = v.by;
    launch.size = number(v.size, size, 1, kMost);
    launch.rank = number(v.rank, rank, 0, launch.size - 1);
    if (const char* local = getenv(v.local_rank)) launch.local_rank = number(v.local_rank, local, 0, launch.size - 1);
    if (!v.local_size)
      launch.local_size = slurm_local_size(getenv);
    else if (const char* local = getenv(v.local_size))
      launch.local_size = number(v.local_size, local, 1, launch.size);
    launch.local_size = std::max(launch.local_size, launch.local_rank + 1);
    return launch;
  }
  return {};
}

Launch launch_of_environment() {
  return launch_of_environment([](const char* name) -> const char* { return std::getenv(name); });
}

std::unique_ptr<Communicator> open_communicator(const CommunicatorOptions& options) {
  constexpr std::chrono::seconds kMost(365 * 24 * 3600);
  check(options.timeout.count() > 0 && options.timeout <= kMost, "communicator", "the timeout is ", options.timeout.count(),
        " s, expected 1 to ", kMost.count(), " s");
  const Launch launch = launch_of_environment();
  if (launch.size == 1) return planned_ranks(1);
  try {
    return open_mpi(launch, options);
  } catch (const Error&) {
    if (launch.rank == 0) throw;
    // Rank 0 prints the same error. The launcher ends all processes when the first fails: not before that.
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(EXIT_FAILURE);
  }
}

std::vector<EngineEntry> list_engines() {
  const std::string nccl = nccl_version_text();
  return {mpi_entry(), {"NCCL", !nccl.empty() && std::isdigit(static_cast<unsigned char>(nccl[0])) != 0, nccl}};
}

}  // namespace weft
