#include "weft/backends/metal/sim/module.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <sstream>

#include "weft/backends/metal/sim/process.h"
#include "weft/backends/metal/sim/runtime.h"
#include "weft/base/check.h"
#include "weft/io/atomic_file.h"

namespace weft::metal::sim {
namespace {

struct Range {
  uintptr_t base, low, high;
};

Range mapped(uintptr_t base) {
  Range range{base, ~uintptr_t(0), 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        Range& r = *static_cast<Range*>(data);
        if (info->dlpi_addr != r.base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          r.low = std::min<uintptr_t>(r.low, r.base + segment.p_vaddr);
          r.high = std::max<uintptr_t>(r.high, r.base + segment.p_vaddr + segment.p_memsz);
        }
        return 1;
      },
      &range);
  return range;
}

}  // namespace

Module::Module(std::string path, const std::vector<Constant>& constants) : path_(std::move(path)) {
  const std::string copy = join(path_, ".", random_digits(), ".loaded");
  std::filesystem::copy_file(path_, copy, std::filesystem::copy_options::overwrite_existing);
  handle_ = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string error = handle_ ? "" : dlerror();
  unlink(copy.c_str());
  if (!handle_) fail(ErrorCode::unsupported, "metal-sim", "a compiled kernel cannot be loaded: ", error);
  table_ = static_cast<const weft_sim::Module*>(dlsym(handle_, "weft_sim_module"));
  if (!table_ || table_->version != weft_sim::kVersion)
    fail(ErrorCode::unsupported, "metal-sim", path_, " is not a kernel of this version");
  link_map* map = nullptr;
  dlinfo(handle_, RTLD_DI_LINKMAP, &map);
  const Range range = mapped(map->l_addr);
  low_ = reinterpret_cast<const char*>(range.low);
  high_ = reinterpret_cast<const char*>(range.high);
  *table_->runtime = &runtime();
  set(constants);
}

Module::~Module() {
  if (handle_) dlclose(handle_);
}

void Module::set(const std::vector<Constant>& constants) {
  for (int i = 0; i < table_->constant_count; ++i) {
    const weft_sim::FunctionConstant& known = table_->constants[i];
    for (const Constant& c : constants) {
      if (c.index != known.index) continue;
      check(known.type == int(c.type), "metal-sim", "function constant ", c.index, " '", known.name,
            "' and its value have different types");
      const int bytes = c.type == Constant::Type::boolean ? 1 : 4;
      std::memcpy(known.value, &c.bits, size_t(bytes));  // little endian: the first byte of a boolean
      *known.defined = true;
    }
  }
  table_->initialize();
}

const weft_sim::Kernel* Module::find(std::string_view kernel) const {
  for (int i = 0; i < table_->kernel_count; ++i) {
    if (kernel == table_->kernels[i].name) return &table_->kernels[i];
  }
  return nullptr;
}

// An access merged from two branches has no line; the line of the code before it is reported instead.
std::string Module::place_of(const void* code) const {
  constexpr int kFar = 48;                                        // bytes
  const auto offset = static_cast<const char*>(code) - low_ - 1;  // the call, not its return address
  std::string place;
  for (int before = 0; before < kFar; before += 4) {
    place = place_at(offset - before);
    if (!place.ends_with(":?") && !place.ends_with(":0")) return before ? "near " + place : place;
  }
  return place;
}

// addr2line prints the innermost function first; functions of the shim were inlined into the kernel's line.
std::string Module::place_at(std::ptrdiff_t offset) const {
  std::ostringstream address;
  address << std::hex << "0x" << offset;
  std::istringstream lines(run_process({"addr2line", "-i", "-e", path_, address.str()}).output);
  std::string line, first;
  while (std::getline(lines, line)) {
    line = line.substr(0, line.find(" (discriminator"));
    while (line.starts_with("./")) line.erase(0, 2);
    if (first.empty()) first = line;
    if (line.find("weft_sim/") == std::string::npos && line.find("entries:") == std::string::npos) return line;
  }
  return first.empty() ? "an unknown line" : first;
}

}  // namespace weft::metal::sim
