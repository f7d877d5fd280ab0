#include "weft/backends/metal/planned_gpu.h"

#include "weft/backends/counting/address_space.h"

namespace weft::metal {
namespace {

// A pipeline that allows the maximum number of threads.
struct PlannedPipeline : Pipeline {
  int most_threads() const override { return 1024; }
};
struct PlannedLibrary : Library {
  std::shared_ptr<Pipeline> pipeline(std::string_view, const std::vector<Constant>&) override {
    return std::make_shared<PlannedPipeline>();
  }
};

class PlannedGpu : public Gpu {
 public:
  std::string description() const override { return "plans the allocations of a Metal device"; }
  DeviceTraits traits() const override { return {}; }
  int64_t total_memory() const override { return INT64_MAX; }
  int64_t free_memory() const override { return INT64_MAX; }

  void* new_buffer(int64_t bytes) override {
    void* memory = space_.obtain(bytes);
    return memory ? new Part{static_cast<char*>(memory), bytes} : nullptr;
  }
  void delete_buffer(void* buffer) override {
    const std::unique_ptr<Part> part(static_cast<Part*>(buffer));
    space_.give_back(part->memory, part->bytes);
  }
  char* contents(void* buffer) override { return static_cast<Part*>(buffer)->memory; }

  std::shared_ptr<Library> library(const std::string&, const std::string&) override { return std::make_shared<PlannedLibrary>(); }
  void encode(const Dispatch&) override {}
  void barrier() override {}
  void commit() override {}
  void wait() override {}
  Counters counters() override { return {}; }
  void reset_counters() override {}

 private:
  struct Part {
    char* memory;
    int64_t bytes;
  };
  counting::AddressSpace space_;
};

}  // namespace

std::unique_ptr<Gpu> planned_gpu() { return std::make_unique<PlannedGpu>(); }

}  // namespace weft::metal
