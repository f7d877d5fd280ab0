// How much memory this process may still take, from what the system says: /proc/meminfo, and the limits of the control groups
// (cgroup v1 and v2) that a container, a batch system or systemd put the process into.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::cpu {

struct HostMemory {
  int64_t total = 0;            // the machine's, or the lowest limit
  int64_t available = 0;        // what can be taken without swapping or being killed; page cache that can be dropped counts
  std::string_view limit = {};  // "the container's limit" where that leaves less than the machine has; else empty
};

// `root` stands before every path that is read: a test lays out a /proc and a /sys of its own. Where there is no /proc, as on
// macOS, sysconf answers. A limit that cannot be read is none.
HostMemory host_memory(const std::string& root = "");

}  // namespace weft::cpu
