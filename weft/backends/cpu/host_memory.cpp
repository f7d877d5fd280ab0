#include "weft/backends/cpu/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace weft::cpu {
namespace {

// One hierarchy of control groups: its mount point, and the files with its figures.
struct Hierarchy {
  std::vector<const char*> limits;
  const char *usage, *cache;  // cache: line of memory.stat with reclaimable page cache
  std::string folder;         // mount point; empty: not mounted
  std::string group;          // group of this process, below the mount point: "" or "/a/b"
};

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;  // "max" is not a number
}

std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  return file >> word ? number(word) : std::nullopt;
}

// Reads the number after `name` at the beginning of a line: "inactive_file 4096", "MemTotal:  24 kB".
std::optional<int64_t> entry_in(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key, value;
    if (words >> key >> value && key == name) return number(value);
  }
  return {};
}

bool lists(std::string_view list, std::string_view wanted) {  // "rw,cpu,memory"
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (list.substr(at, end - at) == wanted) return true;
    at = end + 1;
  }
  return false;
}

// Unescapes a path of mountinfo, which writes a space as \040.
std::string unescaped(const std::string& text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) && octal(text[i + 3])) {
      out += char((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Parses lines of /proc/self/cgroup: "4:memory,cpu:/group" of v1, "0::/group" of v2.
std::optional<std::string> group_of(const std::string& root, bool unified) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (unified ? controllers.empty() : lists(controllers, "memory")) return line.substr(second + 1);
  }
  return {};
}

// A container sees its own group as the mount's root ("/docker/1f"); the groups above it are not visible.
std::string below(const std::string& group, const std::string& mounted) {
  if (mounted == "/") return group == "/" || group.starts_with("/..") ? "" : group;
  return group.starts_with(mounted + "/") ? group.substr(mounted.size()) : "";
}

// Parses lines of /proc/self/mountinfo: "36 35 0:33 MOUNTED POINT options ... - cgroup source rw,memory".
void find_mount(const std::string& root, bool unified, Hierarchy& found) {
  const std::optional<std::string> group = group_of(root, unified);
  if (!group) return;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string id, parent, device, mounted, point, kind, source, options;
    before >> id >> parent >> device >> mounted >> point;
    after >> kind >> source >> options;
    if (unified ? kind != "cgroup2" : kind != "cgroup" || !lists(options, "memory")) continue;
    found.folder = root + unescaped(point);
    found.group = below(*group, unescaped(mounted));
    return;
  }
}

// Applies the limits of the process's group and of every group above it.
void apply_limits(const Hierarchy& hierarchy, HostMemory& memory) {
  if (hierarchy.folder.empty()) return;
  for (std::string group = hierarchy.group;; group.resize(group.rfind('/'))) {
    const std::string folder = hierarchy.folder + group + "/";
    for (const char* name : hierarchy.limits) {
      const auto limit = number_in(folder + name), usage = number_in(folder + hierarchy.usage);
      if (!limit || !usage) continue;
      memory.total = std::min(memory.total, *limit);
      const int64_t cache = std::min(*usage, entry_in(folder + "memory.stat", hierarchy.cache).value_or(0));
      const int64_t left = std::max<int64_t>(0, *limit - (*usage - cache));
      if (left >= memory.available) continue;
      memory.available = left;
      memory.limit = "the container's limit";
    }
    if (group.empty()) return;
  }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  HostMemory memory{.total = sysconf(_SC_PHYS_PAGES) * page, .available = sysconf(_SC_PHYS_PAGES) * page};
#ifdef _SC_AVPHYS_PAGES
  memory.available = sysconf(_SC_AVPHYS_PAGES) * page;
#endif
  const std::string meminfo = root + "/proc/meminfo";
  if (const auto kib = entry_in(meminfo, "MemTotal:")) memory.total = *kib * 1024;
  if (const auto kib = entry_in(meminfo, "MemAvailable:")) memory.available = *kib * 1024;
  Hierarchy v2{{"memory.max", "memory.high"}, "memory.current", "inactive_file", {}, {}};
  Hierarchy v1{{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file", {}, {}};
  find_mount(root, true, v2);
  find_mount(root, false, v1);
  for (const Hierarchy* each : {&v2, &v1}) apply_limits(*each, memory);
  return memory;
}

}  // namespace weft::cpu
