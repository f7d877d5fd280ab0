// Omits each barrier that the stream puts between dispatches, in turn. The checked simulator must report the two dispatches that are then
// unordered, except if the barrier is between interleaved views, such as columns of one matrix: the stream compares only their first and
// last bytes.
//
//   metal_dispatch_barriers [OP...]    of the specs of these ops; without arguments, of all
#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/metal/forwarding_gpu.h"
#include "weft/backends/metal/metal_device.h"
#include "weft/spec/runner.h"

namespace weft {
namespace {

// Events between two waits: "d" a dispatch, "|" a barrier, "." a commit.
struct Encoded {
  int omitted = -1;         // index of the omitted barrier since the last wait
  bool same_begin = false;  // it precedes a dispatch with a view that starts at the same byte as an earlier one, and one of them writes
  std::set<std::string> orders;
  std::string order;
  int barriers = 0;
  bool just_omitted = false;
  std::vector<metal::Binding> bindings;  // since the last barrier

  void dispatch(const metal::Dispatch& next) {
    order += 'd';
    for (const metal::Binding& b : next.bindings) {
      for (const metal::Binding& a : bindings)
        same_begin |= just_omitted && b.buffer && a.buffer == b.buffer && a.offset == b.offset && !(a.read_only && b.read_only);
    }
    just_omitted = false;
    bindings.insert(bindings.end(), next.bindings.begin(), next.bindings.end());
  }
  // Whether this barrier is omitted.
  bool barrier() {
    order += '|';
    just_omitted = barriers++ == omitted;
    if (!just_omitted) bindings.clear();
    return just_omitted;
  }
  void commit() {
    order += '.';
    bindings.clear();
  }
  void waited() {
    orders.insert(order);
    order.clear();
    bindings.clear();
    barriers = 0;
  }
};

class LessBarriers : public ForwardingGpu {
 public:
  explicit LessBarriers(Encoded& encoded) : ForwardingGpu(metal::SimMode::checked), encoded_(encoded) {}
  void encode(const metal::Dispatch& dispatch) override {
    encoded_.dispatch(dispatch);
    gpu_->encode(dispatch);
  }
  void barrier() override {
    if (!encoded_.barrier()) gpu_->barrier();
  }
  void commit() override {
    encoded_.commit();
    gpu_->commit();
  }
  void wait() override {
    encoded_.waited();
    gpu_->wait();
  }

 private:
  Encoded& encoded_;
};

std::shared_ptr<Device> device_with(Encoded& encoded) {
  return metal::make_device("metal-sim:checked", std::make_unique<LessBarriers>(encoded), {.checked = true});
}

int64_t size_of(const spec::Case& c) {
  int64_t elements = 0;
  for (const spec::Operand& o : c.make().operands()) elements += o.shape.numel();
  return elements;
}

class Report {
 public:
  // Tests every barrier of this case, if no earlier case had the same sequence of dispatches.
  void add(const spec::Case& c) {
    all_.orders.clear();
    const spec::Outcome outcome = spec::run_case(c, device_, {});
    if (outcome.status == spec::Status::skipped) return;
    if (outcome.status == spec::Status::failed) return failed(c, -1, outcome.message);
    int most = 0;
    bool is_new = false;
    for (const std::string& order : all_.orders) {
      most = std::max(most, int(std::count(order.begin(), order.end(), '|')));
      is_new |= order.find('|') != std::string::npos && known_.insert(c.op + c.variant + order).second;
    }
    for (int k = 0; is_new && k < most; ++k) omit(c, k);
  }
  int status() const {
    std::printf("%d needed, %d between views that lie between each other, %d failed\n", needed_, between_, failed_);
    return failed_ || needed_ <= between_ ? 1 : 0;
  }

 private:
  void omit(const spec::Case& c, int barrier) {
    Encoded encoded;
    encoded.omitted = barrier;
    const spec::Outcome outcome = spec::run_case(c, device_with(encoded), {});
    if (outcome.status == spec::Status::passed && !encoded.same_begin) {
      ++between_;
      std::printf("between %s, barrier %d\n", outcome.name.c_str(), barrier);
      return;
    }
    if (outcome.status != spec::Status::failed || outcome.message.find("no barrier between two dispatches") == std::string::npos) {
      return failed(c, barrier, outcome.status == spec::Status::failed ? outcome.message : "nothing noticed that it was gone");
    }
    ++needed_;
    std::printf("needed  %s, barrier %d  (%s)\n", outcome.name.c_str(), barrier, outcome.message.c_str());
    std::fflush(stdout);
  }
  void failed(const spec::Case& c, int barrier, const std::string& why) {
    ++failed_;
    std::printf("FAILED  %s.%s/%s, barrier %d: %s\n", c.op.c_str(), c.variant.c_str(), c.name.c_str(), barrier, why.c_str());
    std::fflush(stdout);
  }

  Encoded all_;
  std::shared_ptr<Device> device_ = device_with(all_);
  std::set<std::string> known_;
  int needed_ = 0, between_ = 0, failed_ = 0;
};

int run(const std::vector<std::string>& ops) {
  constexpr int64_t kSmall = 20000;
  spec::Registry registry;
  spec::add_all_specs(registry);
  Report report;
  for (const spec::Case& c : registry.cases()) {
    if (!ops.empty() && std::find(ops.begin(), ops.end(), c.op) == ops.end()) continue;
    if (c.dtype == DType::f32 && size_of(c) <= kSmall) report.add(c);  // launchers act the same for every dtype
  }
  return report.status();
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::run({argv + 1, argv + argc}); }
