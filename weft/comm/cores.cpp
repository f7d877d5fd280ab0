#include "weft/comm/cores.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "weft/base/parallel.h"

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

namespace weft {
namespace {

using detail::Cpus;
using detail::Place;
using detail::RankCpus;

// The CPUs that any rank of this host may use.
Cpus used_cpus(std::span<const RankCpus> ranks, const std::string& host) {
  Cpus used;
  for (const RankCpus& rank : ranks)
    if (rank.host == host) used.insert(used.end(), rank.now.begin(), rank.now.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

}  // namespace

namespace detail {

bool crowded(std::span<const RankCpus> ranks, int rank) {
  const RankCpus& own = ranks[size_t(rank)];
  const auto here = std::count_if(ranks.begin(), ranks.end(), [&](const RankCpus& other) { return other.host == own.host; });
  const auto cpus = int64_t(used_cpus(ranks, own.host).size());
  return here > (own.quota > 0 ? std::min<int64_t>(own.quota, cpus) : cpus);
}

CoreShare core_share(std::span<const RankCpus> ranks, int rank, const std::vector<Place>& places) {
  const RankCpus& own = ranks[size_t(rank)];
  // The launcher's default is undone if all ranks of the host would have the same CPUs then, and more than they have now.
  bool undo = used_cpus(ranks, own.host).size() < own.undone.size();
  for (const RankCpus& other : ranks) undo = undo && (other.host != own.host || other.undone == own.undone);

  CoreShare share;
  share.from = undo ? own.undone : own.now;
  size_t index = 0, sharing = 0;
  for (size_t other = 0; other < ranks.size(); ++other) {
    if (ranks[other].host != own.host || !(undo || ranks[other].now == own.now)) continue;
    index += other < size_t(rank);
    ++sharing;
  }
  share.ranks = int(sharing);
  share.cpus = share.packages = share.from;
  if (share.from.size() < sharing) return share;
  const auto placed = [&](int cpu) { return size_t(cpu) < places.size() ? places[size_t(cpu)] : Place{0, cpu}; };
  std::stable_sort(share.cpus.begin(), share.cpus.end(), [&](int a, int b) { return placed(a) < placed(b); });
  const size_t first = index * share.from.size() / sharing, last = (index + 1) * share.from.size() / sharing;
  share.cpus = Cpus(share.cpus.begin() + ptrdiff_t(first), share.cpus.begin() + ptrdiff_t(last));
  std::sort(share.cpus.begin(), share.cpus.end());
  std::erase_if(share.packages, [&](int cpu) {
    return std::ranges::none_of(share.cpus, [&](int own) { return placed(own).package == placed(cpu).package; });
  });
  return share;
}

}  // namespace detail

namespace {

#ifdef __linux__
constexpr int kMostCpus = CPU_SETSIZE;

Cpus affinity(pid_t process) {
  cpu_set_t set;
  Cpus cpus;
  if (sched_getaffinity(process, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

bool bind(const Cpus& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

// Open MPI's mpirun has bound this process, and no option asked for it. Its parent, mpirun or its daemon on this host, has the mask
// from before.
Cpus affinity_without_default() {
  const Cpus own = affinity(0);
  const auto set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (!set("OMPI_MCA_orte_bound_at_launch") || set("OMPI_MCA_hwloc_base_binding_policy") || set("OMPI_MCA_rmaps_base_mapping_policy") ||
      set("OMPI_MCA_rmaps_base_ranking_policy") || set("OMPI_MCA_hwloc_base_cpu_list") || set("OMPI_MCA_hwloc_base_cpu_set"))
    return own;
  const Cpus parent = affinity(getppid());
  return std::includes(parent.begin(), parent.end(), own.begin(), own.end()) ? parent : own;
}

std::vector<Place> places() {
  std::vector<Place> places;
  for (int cpu : affinity_without_default()) {
    Place place{0, cpu};
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::ifstream(folder + "physical_package_id") >> place.package;
    std::ifstream(folder + "core_id") >> place.core;
    place.package = std::max<int64_t>(place.package, 0);  // -1: unknown
    places.resize(size_t(cpu) + 1);
    places[size_t(cpu)] = place;
  }
  return places;
}
#else
Cpus affinity(int) {
  Cpus cpus;
  for (int cpu = 0; cpu < available_threads(); ++cpu) cpus.push_back(cpu);
  return cpus;
}
Cpus affinity_without_default() { return affinity(0); }
bool bind(const Cpus&) { return false; }
std::vector<Place> places() { return {}; }
#endif

bool threads_are_set() {
  const char* each = std::getenv("OMP_NUM_THREADS");
  return each && std::atoi(each) > 0;
}

// "host\n0 1 2 3\n0 1 2 3\n2"
std::string written(const RankCpus& rank) {
  std::ostringstream text;
  text << rank.host << '\n';
  for (const Cpus* cpus : {&rank.now, &rank.undone}) {
    for (int cpu : *cpus) text << cpu << ' ';
    text << '\n';
  }
  text << rank.quota;
  return text.str();
}

RankCpus read(const std::string& text) {
  RankCpus rank;
  std::istringstream lines(text);
  std::getline(lines, rank.host);
  for (Cpus* cpus : {&rank.now, &rank.undone}) {
    std::string line;
    std::getline(lines, line);
    std::istringstream numbers(line);
    for (int cpu; numbers >> cpu;) cpus->push_back(cpu);
  }
  lines >> rank.quota;
  return rank;
}

}  // namespace

std::vector<RankCpus> detail::gather_cpus(Communicator& communicator, const std::string& own_host) {
  RankCpus own{own_host, affinity(0), affinity_without_default()};
  if (const int cores = available_threads(); cores < int(own.now.size()) && !threads_are_set()) own.quota = cores;
  std::vector<RankCpus> ranks;
  for (const std::string& text : communicator.all_gather(written(own))) ranks.push_back(read(text));
  return ranks;
}

int share_cores(Communicator& communicator, int threads) {
  if (communicator.size() == 1) return threads;
  const std::vector<RankCpus> ranks = detail::gather_cpus(communicator, communicator.host(communicator.rank()));
  const detail::CoreShare share = detail::core_share(ranks, communicator.rank(), places());
  if (share.from != affinity(0)) bind(share.from);
  const int together = available_threads();  // less than share.from has if the container's quota is less: that is shared, too
  if (share.packages != share.from) bind(share.packages);
  if (threads > 0) return threads;
  if (threads_are_set()) return available_threads();
  return int(
      std::clamp<int64_t>(ceil_div(together, share.ranks), 1, int64_t(share.ranks > int(share.from.size()) ? 1 : share.cpus.size())));
}

}  // namespace weft
