#include "weft/backends/metal/sim/simulator.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "weft/backends/cpu/host_memory.h"
#include "weft/backends/metal/sim/compiler.h"
#include "weft/backends/metal/sim/dispatch_run.h"
#include "weft/backends/metal/sim/module.h"
#include "weft/backends/metal/sim/runtime.h"
#include "weft/backends/metal/sim/shadow.h"
#include "weft/backends/metal/sim/staging.h"
#include "weft/backends/metal/sim/unordered_dispatches.h"
#include "weft/backends/metal/sim/workers.h"
#include "weft/base/check.h"

namespace weft::metal {
namespace {

using sim::DispatchRun;
using sim::Module;

constexpr const char* kWhere = "metal-sim";

struct SimBuffer {
  char* contents;
  int64_t bytes;
};

class SimPipeline : public Pipeline {
 public:
  SimPipeline(std::shared_ptr<Module> module, const weft_sim::Kernel* kernel) : module_(std::move(module)), kernel_(kernel) {}
  int most_threads() const override {
    return kernel_->most_threads ? std::min(kernel_->most_threads, sim::kMostThreads) : sim::kMostThreads;
  }
  const std::shared_ptr<Module>& module() const { return module_; }
  const weft_sim::Kernel& kernel() const { return *kernel_; }

 private:
  std::shared_ptr<Module> module_;
  const weft_sim::Kernel* kernel_;
};

class SimLibrary : public Library {
 public:
  SimLibrary(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}

  std::shared_ptr<Pipeline> pipeline(std::string_view name, const std::vector<Constant>& constants) override {
    const std::shared_ptr<Module> module = module_with(constants);
    const weft_sim::Kernel* kernel = module->find(name);
    if (!kernel) fail(ErrorCode::unsupported, name_, "has no kernel named '", name, "'");
    for (const char* const* needed = kernel->constants; *needed; ++needed) {
      for (int i = 0; i < module->table().constant_count; ++i) {
        const weft_sim::FunctionConstant& c = module->table().constants[i];
        if (std::strcmp(c.name, *needed) == 0 && !*c.defined)
          fail(ErrorCode::unsupported, name_, "kernel '", name, "' needs function constant ", c.index, " '", c.name, "'");
      }
    }
    return std::make_shared<SimPipeline>(module, kernel);
  }

 private:
  std::shared_ptr<Module> module_with(const std::vector<Constant>& constants) {
    for (const auto& [known, module] : modules_) {
      if (known == constants) return module;
    }
    return modules_.emplace_back(constants, std::make_shared<Module>(path_, constants)).second;
  }

  std::string path_, name_;
  std::vector<std::pair<std::vector<Constant>, std::shared_ptr<Module>>> modules_;
};

class Simulator : public Gpu {
 public:
  explicit Simulator(SimMode mode)
      : mode_(mode),
        workers_(mode == SimMode::checked ? 1 : std::max(1, int(std::thread::hardware_concurrency())), mode == SimMode::flush) {}

  ~Simulator() override {
    if (lost_) return;  // a lost thread may still be writing to them
    for (const auto& [buffer, owned] : buffers_) std::free(owned->contents);
  }

  std::string description() const override {
    static const std::map<SimMode, const char*> names{{SimMode::forward, "forward"},
                                                      {SimMode::random, "random order"},
                                                      {SimMode::flush, "flush to zero"},
                                                      {SimMode::checked, "checked"},
                                                      {SimMode::counting, "counting"}};
    return join("Metal simulated on the CPU (", names.at(mode_), ")");
  }
  DeviceTraits traits() const override {
    return {.simulated = true, .checks_accesses = mode_ == SimMode::checked, .flushes = mode_ == SimMode::flush};
  }
  int64_t total_memory() const override { return int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }
  int64_t free_memory() const override { return cpu::host_memory().available; }

  void* new_buffer(int64_t bytes) override {
    const size_t size = size_t(std::max<int64_t>(bytes, 1) + 255) / 256 * 256;
    if (int64_t(size) > total_memory()) return nullptr;
    char* contents = static_cast<char*>(std::aligned_alloc(256, size));
    if (!contents) return nullptr;
    auto owned = std::make_unique<SimBuffer>(SimBuffer{contents, bytes});
    void* handle = owned.get();
    buffers_.emplace(handle, std::move(owned));
    return handle;
  }
  void delete_buffer(void* buffer) override {
    const auto found = buffers_.find(buffer);
    if (found == buffers_.end()) return;
    if (!lost_) std::free(found->second->contents);
    buffers_.erase(found);
  }
  char* contents(void* buffer) override { return static_cast<SimBuffer*>(buffer)->contents; }

  std::shared_ptr<Library> library(const std::string& text, const std::string& name) override {
    using sim::Build;
    const Build build = mode_ == SimMode::flush      ? Build::contracted
                        : mode_ == SimMode::checked  ? Build::checked
                        : mode_ == SimMode::counting ? Build::counted
                                                     : Build::plain;
    return std::make_shared<SimLibrary>(sim::compile(text, name, build), name);
  }

  void encode(const Dispatch& dispatch) override;
  void barrier() override {
    if (!waiting_.empty() && !waiting_.back().empty()) waiting_.emplace_back();
  }
  void commit() override;
  void wait() override {
    commit();
    if (!fault_.empty()) fail(ErrorCode::device_fault, fault_op_, std::exchange(fault_, ""));
  }

  Counters counters() override {
    commit();
    return counters_;
  }
  void reset_counters() override {
    commit();
    counters_ = {};
    counters_.counted = mode_ == SimMode::counting;
  }

 private:
  void bind(DispatchRun& launch, const Binding& binding) const;
  void run(const std::shared_ptr<DispatchRun>& launch);
  void check_accesses(const std::shared_ptr<DispatchRun>& launch, std::optional<sim::Staging>& staging);
  std::string describe(const DispatchRun& launch) const;

  const SimMode mode_;
  sim::Workers workers_;
  sim::Shadow shadow_;
  sim::UnorderedDispatches unordered_;  // since the last barrier; checked mode only
  std::map<void*, std::unique_ptr<SimBuffer>> buffers_;
  std::vector<std::vector<std::shared_ptr<DispatchRun>>> waiting_;  // one list per interval between two barriers
  uint64_t serial_ = 0;
  bool lost_ = false;
  std::string fault_, fault_op_;
  Counters counters_{.counted = mode_ == SimMode::counting};
};

void Simulator::bind(DispatchRun& launch, const Binding& binding) const {
  const char* op = launch.op;
  check(binding.index >= 0 && binding.index < weft_sim::kMostBuffers, op, "buffer index must be from 0 to ", weft_sim::kMostBuffers - 1,
        ", got ", binding.index);
  char* pointer = nullptr;
  if (binding.buffer) {
    const auto& buffer = *static_cast<SimBuffer*>(binding.buffer);
    check(binding.offset >= 0 && binding.bytes >= 0 && binding.offset + binding.bytes <= buffer.bytes, op, "binding of ", binding.bytes,
          " bytes at offset ", binding.offset, " exceeds its buffer of ", buffer.bytes, " bytes");
    pointer = buffer.contents + binding.offset;
    if (binding.read_only) launch.read_only_bindings |= 1u << binding.index;
  } else if (binding.copied) {
    check(binding.bytes >= 0 && binding.bytes <= 4096, op, "at most 4096 bytes can be copied into a binding, got ", binding.bytes);
    const auto* from = static_cast<const char*>(binding.copied);
    pointer = launch.copied.emplace_back(from, from + binding.bytes).data();
    launch.copied_bindings |= 1u << binding.index;
  }
  launch.bindings.pointer[binding.index] = pointer;
  launch.bindings.bytes[binding.index] = pointer ? uint64_t(binding.bytes) : 0;
}

void Simulator::encode(const Dispatch& dispatch) {
  const auto& pipeline = dynamic_cast<const SimPipeline&>(*dispatch.pipeline);
  const char* op = dispatch.op;
  check(dispatch.threads >= 1 && dispatch.threads <= pipeline.most_threads(), op, "kernel '", pipeline.kernel().name, "' takes 1 to ",
        pipeline.most_threads(), " threads in a group, got ", dispatch.threads);
  check(dispatch.threadgroup_bytes >= 0 && dispatch.threadgroup_bytes % 16 == 0 && dispatch.threadgroup_bytes <= sim::kMostThreadgroupBytes,
        op, "threadgroup memory must be a multiple of 16 bytes, at most ", sim::kMostThreadgroupBytes, ", got ",
        dispatch.threadgroup_bytes);
  const auto shared = std::make_shared<DispatchRun>();
  DispatchRun& launch = *shared;
  launch.op = op;
  launch.module = pipeline.module();
  launch.kernel = &pipeline.kernel();
  for (size_t d = 0; d < 3; ++d) {
    check(dispatch.groups[d] >= 1 && dispatch.groups[d] <= 0xffffffff / dispatch.threads, op, "cannot have ", dispatch.groups[d],
          " groups along one dimension");
    launch.groups[d] = uint32_t(dispatch.groups[d]);
  }
  launch.threads = dispatch.threads;
  launch.threadgroup_bytes = dispatch.threadgroup_bytes;
  launch.random = mode_ == SimMode::random;
  launch.counting = mode_ == SimMode::counting;
  launch.seed = ++serial_;
  for (const Binding& binding : dispatch.bindings) bind(launch, binding);
  for (int i = 0; i < launch.kernel->parameter_count; ++i) {
    const weft_sim::Parameter& p = launch.kernel->parameters[i];
    check(p.kind != weft_sim::Parameter::threadgroup || (p.index == 0 && launch.threadgroup_bytes > 0), op, "kernel '", launch.kernel->name,
          "' needs threadgroup memory for '", p.name, "'");
  }
  if (waiting_.empty()) waiting_.emplace_back();
  waiting_.back().push_back(shared);
}

void Simulator::commit() {
  auto waiting = std::exchange(waiting_, {});
  for (auto& together : waiting) {
    if (mode_ == SimMode::random) {
      for (size_t i = together.size(); i > 1; --i) std::swap(together[i - 1], together[(serial_ * 0x9e3779b97f4a7c15u >> 33) % i]);
    }
    for (const std::shared_ptr<DispatchRun>& launch : together) run(launch);
    unordered_.clear();
  }
}

void Simulator::run(const std::shared_ptr<DispatchRun>& shared) {
  if (!fault_.empty() || lost_) return;  // a faulted device runs nothing until the fault is reported
  DispatchRun& launch = *shared;
  std::optional<sim::Staging> staging;
  if (mode_ == SimMode::checked) {
    launch.shadow = &shadow_;
    staging.emplace(launch, shadow_);
  }
  if (!workers_.run(shared)) {
    lost_ = true;
    launch.fault(join("kernel '", launch.kernel->name, "' does not end; the simulated device is lost"));
  }
  if (mode_ == SimMode::checked) check_accesses(shared, staging);
  fault_ = launch.fault();
  fault_op_ = launch.op;
  ++counters_.dispatches;
  const Counters more = workers_.take_counters();
  counters_.threads += more.threads;
  counters_.barriers += more.barriers;
  counters_.device_read += more.device_read;
  counters_.device_written += more.device_written;
  counters_.threadgroup_bytes += more.threadgroup_bytes;
  counters_.matrix_multiply_adds += more.matrix_multiply_adds;
}

// Findings inside the launch; then, once its memory is the host's again, conflicts with other launches.
void Simulator::check_accesses(const std::shared_ptr<DispatchRun>& launch, std::optional<sim::Staging>& staging) {
  if (!shadow_.findings().empty()) launch->fault(describe(*launch));
  staging.reset();
  const std::string conflict = unordered_.add(launch, shadow_.touched());
  if (!conflict.empty()) launch->fault(conflict);
}

// Findings of the shadow memory, with file and line.
std::string Simulator::describe(const DispatchRun& launch) const {
  std::string all = join("kernel '", launch.kernel->name, "'");
  for (const sim::Finding& finding : shadow_.findings()) {
    std::string what = finding.what;
    for (size_t i = 0; i < finding.code.size(); ++i) {
      const size_t at = what.find(i == 0 ? "%1" : "%2");
      if (at != std::string::npos) what.replace(at, 2, launch.module->place_of(finding.code[i]));
    }
    all += "\n  " + what;
  }
  return all;
}

}  // namespace

std::unique_ptr<Gpu> open_simulator(SimMode mode) {
  sim::runtime();  // throws if the environment asks for an order that is none
  return std::make_unique<Simulator>(mode);
}

}  // namespace weft::metal
