// Memory that the process may still allocate, read from /proc and /sys trees made here; and the error of a run that exceeds it.
#include "weft/backends/cpu/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/train/plan.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t(1) << 20;

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    write("/proc/meminfo", "MemTotal:       2048000 kB\nMemFree:          102400 kB\nMemAvailable:   1024000 kB\nBuffers:  5 kB\n");
  }
  ~HostMemoryTest() override { fs::remove_all(root); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root.string() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void mount_v2(const std::string& group, const std::string& mounted = "/") {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo", "22 1 0:20 / /proc rw,relatime shared:5 - proc proc rw\n30 23 0:26 " + mounted +
                                      " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void mount_v1(const std::string& group, const std::string& mounted = "/") {
    write("/proc/self/cgroup", "7:cpu,cpuacct:/elsewhere\n4:memory:" + group + "\n1:name=systemd:/\n0::/\n");
    write(
        "/proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n32 23 0:28 " + mounted +
            " /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
  void limit_v2(const std::string& group, const std::string& limit, int64_t current, int64_t inactive = 0) {
    const std::string folder = "/sys/fs/cgroup" + group + "/";
    write(folder + "memory.max", limit + "\n");
    write(folder + "memory.current", join(current, "\n"));
    write(folder + "memory.stat", join("anon 123\nfile ", 2 * inactive, "\ninactive_file ", inactive, "\nactive_file 77\n"));
  }
  void limit_v1(const std::string& group, int64_t limit, int64_t usage, int64_t inactive = 0) {
    const std::string folder = "/sys/fs/cgroup/memory" + group + "/";
    write(folder + "memory.limit_in_bytes", join(limit, "\n"));
    write(folder + "memory.usage_in_bytes", join(usage, "\n"));
    write(folder + "memory.stat", join("inactive_file 1\ntotal_inactive_file ", inactive, "\n"));
  }
  void expect(int64_t total, int64_t available, const std::string& limit) {
    const cpu::HostMemory memory = cpu::host_memory(root.string());
    EXPECT_EQ(memory.total, total);
    EXPECT_EQ(memory.available, available);
    EXPECT_EQ(memory.limit, limit);
  }
  const fs::path root = fs::temp_directory_path() / ("weft_host_memory_" + std::to_string(::getpid()));
  static constexpr int64_t kTotal = 2000 * kMiB, kAvailable = 1000 * kMiB;
};

constexpr const char* kContainer = "the container's limit";

TEST_F(HostMemoryTest, without_cgroups_uses_available_memory) { expect(kTotal, kAvailable, ""); }

TEST_F(HostMemoryTest, v2_limit_minus_usage_without_page_cache) {
  mount_v2("/job");
  limit_v2("/job", join(400 * kMiB), 300 * kMiB, 200 * kMiB);
  expect(400 * kMiB, 300 * kMiB, kContainer);
}

TEST_F(HostMemoryTest, v2_uses_the_limits_of_all_parent_groups) {
  mount_v2("/slice/user/job");
  limit_v2("/slice/user/job", "max", 10 * kMiB);
  limit_v2("/slice/user", join(900 * kMiB), 10 * kMiB);
  limit_v2("/slice", join(500 * kMiB), 450 * kMiB);
  expect(500 * kMiB, 50 * kMiB, kContainer);
  limit_v2("/slice", "max", 450 * kMiB);
  write("/sys/fs/cgroup/slice/user/memory.high", join(200 * kMiB));
  expect(200 * kMiB, 190 * kMiB, kContainer);
}

TEST_F(HostMemoryTest, v2_without_a_limit_uses_available_memory) {
  mount_v2("/job");
  limit_v2("/job", "max", 300 * kMiB);
  expect(kTotal, kAvailable, "");
  limit_v2("/job", join(int64_t(1) << 50), 300 * kMiB);
  expect(kTotal, kAvailable, "");
}

TEST_F(HostMemoryTest, v2_usage_above_the_limit_leaves_nothing) {
  mount_v2("/job");
  limit_v2("/job", join(100 * kMiB), 120 * kMiB);
  expect(100 * kMiB, 0, kContainer);
}

// A container's /proc/self/cgroup and mount: its own namespace ("/"), or the host's names with the group as the mount's root.
TEST_F(HostMemoryTest, container_reads_its_group_at_the_mount_point) {
  limit_v2("", join(400 * kMiB), 100 * kMiB);
  for (const auto& [group, mounted] :
       {std::pair{"/", "/"}, {"/docker/1f", "/docker/1f"}, {"/../other", "/"}, {"/docker/1f", "/elsewhere"}}) {
    mount_v2(group, mounted);
    expect(400 * kMiB, 300 * kMiB, kContainer);
  }
  limit_v2("/task", join(250 * kMiB), 100 * kMiB);
  mount_v2("/docker/1f/task", "/docker/1f");
  expect(250 * kMiB, 150 * kMiB, kContainer);
}

TEST_F(HostMemoryTest, v1_nested) {
  mount_v1("/batch/job");
  limit_v1("/batch/job", int64_t(0x7ffffffffffff000), 50 * kMiB);  // the kernel's value for "no limit"
  limit_v1("/batch", 600 * kMiB, 500 * kMiB, 40 * kMiB);
  limit_v1("", int64_t(0x7ffffffffffff000), 900 * kMiB);
  expect(600 * kMiB, 140 * kMiB, kContainer);
  limit_v1("/batch/job", 100 * kMiB, 50 * kMiB);
  expect(100 * kMiB, 50 * kMiB, kContainer);
  mount_v1("/docker/1f", "/docker/1f");
  limit_v1("", 300 * kMiB, 100 * kMiB);
  expect(300 * kMiB, 200 * kMiB, kContainer);
}

TEST_F(HostMemoryTest, missing_or_malformed_files_mean_no_limit) {
  mount_v2("/job");
  expect(kTotal, kAvailable, "");
  write("/sys/fs/cgroup/job/memory.max", "100\n");  // its usage is unknown
  expect(kTotal, kAvailable, "");
  limit_v2("/job", "plenty", 5);
  expect(kTotal, kAvailable, "");
  limit_v2("/job", "", 5);
  expect(kTotal, kAvailable, "");
  write("/proc/self/mountinfo", "30 23 0:26\n");
  limit_v2("/job", "100", 5);
  expect(kTotal, kAvailable, "");
  fs::remove_all(root);
  EXPECT_GT(cpu::host_memory(root.string()).available, 0);
}

// The device reports what the reader found, and a run that does not fit names the limit.
TEST_F(HostMemoryTest, out_of_memory_error_names_the_limit) {
  const MemoryInfo device = open_device("cpu")->memory();
  const cpu::HostMemory host = cpu::host_memory();
  EXPECT_EQ(device.total, host.total);
  EXPECT_EQ(device.limit, host.limit);
  EXPECT_LE(std::abs(double(device.free - host.available)), 0.2 * double(host.total));  // other processes allocate meanwhile
  mount_v2("/job");
  limit_v2("/job", join(400 * kMiB), 300 * kMiB);
  const cpu::HostMemory limited = cpu::host_memory(root.string());
  const MemoryInfo info{.total = limited.total, .free = limited.available, .in_use = 0, .high_water = 0, .limit = limited.limit};
  Plan plan;
  plan.memory.held_high_water = 200 * kMiB;
  EXPECT_NE(plan_text(plan, info).find("of 100 MiB free within the container's limit"), std::string::npos) << plan_text(plan, info);
  try {
    check_fits(plan, TrainConfig(), info);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(
        std::string(error.what()).find("this run needs 200 MiB at its peak, the device has 100 MiB free within the container's limit"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace weft
