// Every op with pipelines of fewer threads than the maximum: kernels that use many registers get fewer, and which ones depends on the chip.
// Each small case of each spec must still pass.
//
//   metal_few_threads THREADS
#include <cstdio>
#include <cstdlib>

#include "tests/metal/forwarding_gpu.h"
#include "weft/backends/metal/metal_device.h"
#include "weft/spec/runner.h"

namespace weft {
namespace {

class FewThreads : public metal::Pipeline {
 public:
  FewThreads(std::shared_ptr<metal::Pipeline> pipeline, int most) : pipeline_(std::move(pipeline)), most_(most) {}
  int most_threads() const override { return std::min(most_, pipeline_->most_threads()); }
  metal::Pipeline* whole() const { return pipeline_.get(); }

 private:
  std::shared_ptr<metal::Pipeline> pipeline_;
  int most_;
};

class FewThreadsLibrary : public metal::Library {
 public:
  FewThreadsLibrary(std::shared_ptr<metal::Library> library, int most) : library_(std::move(library)), most_(most) {}
  std::shared_ptr<metal::Pipeline> pipeline(std::string_view kernel, const std::vector<metal::Constant>& constants) override {
    return std::make_shared<FewThreads>(library_->pipeline(kernel, constants), most_);
  }

 private:
  std::shared_ptr<metal::Library> library_;
  int most_;
};

class FewThreadsGpu : public ForwardingGpu {
 public:
  explicit FewThreadsGpu(int most) : ForwardingGpu(metal::SimMode::forward), most_(most) {}
  std::shared_ptr<metal::Library> library(const std::string& text, const std::string& name) override {
    return std::make_shared<FewThreadsLibrary>(gpu_->library(text, name), most_);
  }
  void encode(const metal::Dispatch& dispatch) override {
    metal::Dispatch whole = dispatch;
    whole.pipeline = static_cast<FewThreads&>(*dispatch.pipeline).whole();
    gpu_->encode(whole);
  }

 private:
  int most_;
};

int run(int most) {
  constexpr int64_t kSmall = 100000;
  spec::Registry registry;
  spec::add_all_specs(registry);
  const auto device = metal::make_device("metal-sim", std::make_unique<FewThreadsGpu>(most), {.checked = true});
  int passed = 0, failed = 0;
  for (const spec::Case& c : registry.cases()) {
    int64_t elements = 0;
    const spec::Problem problem = c.make();
    for (const spec::Operand& o : problem.operands()) elements += o.shape.numel();
    if (elements > kSmall) continue;
    const spec::Outcome outcome = spec::run_case(c, device, {});
    passed += outcome.status == spec::Status::passed;
    if (outcome.status != spec::Status::failed) continue;
    ++failed;
    std::printf("FAILED  %s: %s\n", outcome.name.c_str(), outcome.message.c_str());
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed ? 1 : 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const int threads = argc == 2 ? std::atoi(argv[1]) : 0;
  if (threads < 32) return std::fprintf(stderr, "metal_few_threads THREADS\n"), 2;
  return weft::run(threads);
}
