// Memory that this process may still allocate: /proc/meminfo, and the limits of the control groups (cgroup v1 and v2) of a container, a
// batch system or systemd.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::cpu {

struct HostMemory {
  int64_t total = 0;            // of the machine, or the lowest limit
  int64_t available = 0;        // usable without swapping or being killed; includes reclaimable page cache
  std::string_view limit = {};  // "the container's limit" if that leaves less than the machine has; else empty
};

// `root` is prepended to every path that is read, so that a test can provide its own /proc and /sys. Without /proc, as on macOS, sysconf is
// used. A limit that cannot be read is ignored.
HostMemory host_memory(const std::string& root = "");

}  // namespace weft::cpu
