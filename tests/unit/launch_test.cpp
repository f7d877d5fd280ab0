// How ranks are started: the launchers' environments, and cores shared by the ranks of one host.
#include "weft/comm/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/base/error.h"
#include "weft/comm/cores.h"

namespace weft {
namespace {

using detail::core_share;
using detail::Cpus;
using detail::RankCpus;

Launch launch_of(const std::map<std::string, std::string>& environment) {
  return launch_of_environment([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

void expect_launch(const Launch& launch, const char* by, int rank, int size, int local_rank, int local_size) {
  EXPECT_EQ(launch.by, by);
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.size, size);
  EXPECT_EQ(launch.local_rank, local_rank);
  EXPECT_EQ(launch.local_size, local_size);
}

TEST(Launch, Alone) {
  expect_launch(launch_of({}), "", 0, 1, 0, 1);
  // A batch script's own command: srun has not started it.
  expect_launch(launch_of({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}), "", 0, 1, 0, 1);
}

TEST(Launch, OpenMpi) {
  const std::map<std::string, std::string> own = {{"OMPI_COMM_WORLD_RANK", "5"},
                                                  {"OMPI_COMM_WORLD_SIZE", "8"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  expect_launch(launch_of(own), "mpirun", 5, 8, 1, 4);
  auto inside_a_step = own;  // mpirun has started its daemons with srun
  inside_a_step.insert({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}});
  expect_launch(launch_of(inside_a_step), "mpirun", 5, 8, 1, 4);
}

TEST(Launch, Hydra) {
  std::map<std::string, std::string> own = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  expect_launch(launch_of(own), "mpirun", 3, 4, 1, 2);
  own.insert({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}});  // its daemons
  expect_launch(launch_of(own), "mpirun", 3, 4, 1, 2);
}

TEST(Launch, Srun) {
  std::map<std::string, std::string> own = {{"SLURM_PROCID", "6"},
                                            {"SLURM_STEP_NUM_TASKS", "7"},
                                            {"SLURM_LOCALID", "0"},
                                            {"SLURM_NODEID", "3"},
                                            {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
  expect_launch(launch_of(own), "srun", 6, 7, 0, 1);
  own["SLURM_PROCID"] = "3", own["SLURM_LOCALID"] = "1", own["SLURM_NODEID"] = "1";
  expect_launch(launch_of(own), "srun", 3, 7, 1, 2);
  own.insert({{"PMI_RANK", "3"}, {"PMI_SIZE", "7"}});  // srun --mpi=pmi2
  expect_launch(launch_of(own), "srun", 3, 7, 1, 2);
  for (const char* odd : {"", ",", "x", "2(x", "2(x1", "99999999999999999999", "2(x-1)"}) {
    own["SLURM_STEP_TASKS_PER_NODE"] = odd;
    EXPECT_GE(launch_of(own).local_size, 2) << odd;  // more than the local rank
  }
}

TEST(Launch, WrongNumbersAreErrors) {
  const auto launch = [](const char* rank, const char* size) {
    return launch_of({{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", size}});
  };
  for (const auto& [rank, size] : {std::pair{"4", "4"}, {"-1", "4"}, {"", "4"}, {"1x", "4"}, {"0", "0"}, {"0", "99999999999"}})
    EXPECT_THROW(launch(rank, size), Error) << rank << " of " << size;
  try {
    launch("7", "4");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "launch: the environment variable OMPI_COMM_WORLD_RANK is '7', expected a number from 0 to 3");
  }
}

TEST(Launch, AloneOpensAlone) {
  if (launch_of_environment().size > 1) GTEST_SKIP() << "started by a launcher";
  const auto ranks = open_communicator();
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_EQ(ranks->description(), "");
  EXPECT_EQ(share_cores(*ranks, 0), 0);
  EXPECT_EQ(share_cores(*ranks, 5), 5);
  for (const int64_t seconds : {int64_t(0), int64_t(-1), int64_t(1) << 40})
    EXPECT_THROW(open_communicator({.timeout = std::chrono::seconds(seconds)}), Error) << seconds;
}

TEST(Cores, EqualMasksAreCut) {
  const RankCpus a{"a", {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}};
  const std::vector<RankCpus> ranks = {a, a, {"b", {0, 1}, {0, 1}}, a, a};
  const std::vector<Cpus> expected = {{0}, {1, 2}, {0, 1}, {3}, {4, 5}};
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(core_share(ranks, rank).cpus, expected[size_t(rank)]) << rank;
  EXPECT_EQ(core_share(ranks, 0).ranks, 4);
  EXPECT_EQ(core_share(ranks, 2).ranks, 1);
}

TEST(Cores, OwnMasksStay) {
  const std::vector<RankCpus> ranks = {{"a", {0, 1}, {0, 1}}, {"a", {2, 3, 4}, {2, 3, 4}}, {"a", {2, 3, 4}, {2, 3, 4}}};
  EXPECT_EQ(core_share(ranks, 0).cpus, (Cpus{0, 1}));
  EXPECT_EQ(core_share(ranks, 1).cpus, (Cpus{2}));
  EXPECT_EQ(core_share(ranks, 2).cpus, (Cpus{3, 4}));
}

TEST(Cores, DefaultBindingIsUndone) {
  const Cpus all = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<RankCpus> two = {{"a", {0}, all}, {"a", {1}, all}};
  EXPECT_EQ(core_share(two, 0).cpus, (Cpus{0, 1, 2, 3}));
  EXPECT_EQ(core_share(two, 1).cpus, (Cpus{4, 5, 6, 7}));
  // Bound to the halves of the machine: nothing would be gained.
  const std::vector<RankCpus> four = {
      {"a", {0, 1, 2, 3}, all}, {"a", {4, 5, 6, 7}, all}, {"a", {0, 1, 2, 3}, all}, {"a", {4, 5, 6, 7}, all}};
  EXPECT_EQ(core_share(four, 1).cpus, (Cpus{4, 5}));
  EXPECT_EQ(core_share(four, 2).cpus, (Cpus{2, 3}));
  // One rank was bound by the user.
  const std::vector<RankCpus> mixed = {{"a", {0}, all}, {"a", {1}, {1}}};
  EXPECT_EQ(core_share(mixed, 0).cpus, (Cpus{0}));
}

TEST(Cores, MoreRanksThanCores) {
  const std::vector<RankCpus> ranks(3, RankCpus{"a", {0, 1}, {0, 1}});
  EXPECT_EQ(core_share(ranks, 2).cpus, (Cpus{0, 1}));
  EXPECT_EQ(core_share(ranks, 2).ranks, 3);
}

TEST(Cores, Crowded) {
  const Cpus two = {0, 1};
  EXPECT_FALSE(detail::crowded(std::vector<RankCpus>(2, {"a", two, two}), 1));
  EXPECT_TRUE(detail::crowded(std::vector<RankCpus>(3, {"a", two, two}), 1));
  EXPECT_TRUE(detail::crowded(std::vector<RankCpus>(2, {"a", two, two, 1}), 1));  // a quota of one core
  const std::vector<RankCpus> bound = {{"a", {0}, {0}}, {"a", {1}, {1}}, {"b", {0}, {0}}, {"b", {0}, {0}}};
  EXPECT_FALSE(detail::crowded(bound, 0));
  EXPECT_TRUE(detail::crowded(bound, 3));
}

TEST(Cores, ThreadsOfOneCoreStayTogether) {
  const std::vector<RankCpus> ranks(2, RankCpus{"a", {0, 1, 2, 3}, {0, 1, 2, 3}});
  const std::vector<detail::Place> places = {{0, 0}, {0, 1}, {0, 0}, {0, 1}};  // CPUs 0 and 2 are one core
  EXPECT_EQ(core_share(ranks, 0, places).cpus, (Cpus{0, 2}));
  EXPECT_EQ(core_share(ranks, 1, places).cpus, (Cpus{1, 3}));
  EXPECT_EQ(core_share(ranks, 0, places).packages, (Cpus{0, 1, 2, 3}));
}

TEST(Cores, RanksAreBoundToTheirPackages) {
  const std::vector<RankCpus> ranks(3, RankCpus{"a", {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}});
  const std::vector<detail::Place> places = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}};
  EXPECT_EQ(core_share(ranks, 0, places).packages, (Cpus{0, 2, 4}));
  EXPECT_EQ(core_share(ranks, 1, places).packages, (Cpus{0, 1, 2, 3, 4, 5}));  // it has a core of each
  EXPECT_EQ(core_share(ranks, 2, places).packages, (Cpus{1, 3, 5}));
}

}  // namespace
}  // namespace weft
