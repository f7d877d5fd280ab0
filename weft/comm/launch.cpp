#include "weft/comm/launch.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "weft/base/check.h"

namespace weft {
namespace {

// The variables of one launcher. `local_size` may be null: not told.
struct Variables {
  const char *by, *rank, *size, *local_rank, *local_size;
};

// mpirun first: it may run inside an srun step or a batch script. SLURM_STEP_NUM_TASKS, unlike SLURM_NTASKS, is the number of processes
// that srun has started, so a batch script's own commands are not taken for ranks.
constexpr Variables kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
};

int number(const char* variable, const char* text, int least, int most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  check(error == std::errc() && stop == end && value >= least && value <= most, "launch", "the environment variable ", variable, " is '",
        text, "', expected a number from ", least, " to ", most);
  return value;
}

// SLURM_STEP_TASKS_PER_NODE is "4", "4(x3)" or "2(x2),1" over the nodes; SLURM_NODEID is the index of this one.
int slurm_local_size(const std::function<const char*(const char*)>& getenv) {
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

}  // namespace

Launch launch_of_environment(const std::function<const char*(const char*)>& getenv) {
  constexpr int kMost = 1 << 20;
  for (const Variables& v : kLaunchers) {
    const char *rank = getenv(v.rank), *size = getenv(v.size);
    if (!rank || !size) continue;
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
  check(options.timeout.count() > 0, "communicator", "the timeout is ", options.timeout.count(), " s, expected at least 1 s");
  const Launch launch = launch_of_environment();
  if (launch.size == 1) return planned_ranks(1);
  if (launch.rank > 0) std::_Exit(EXIT_FAILURE);  // rank 0 says why
  fail(ErrorCode::unsupported, "communicator", launch.by, " started ", launch.size,
       " processes, but this build has no MPI: it was configured with WEFT_MPI=OFF, or no MPI was found");
}

std::vector<EngineEntry> list_engines() { return {{"MPI", false, "this build has no MPI"}}; }

}  // namespace weft
