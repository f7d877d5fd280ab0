#include "weft/comm/on_device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#ifdef WEFT_HAS_CUDA
#include "weft/tile/cuda/runtime.h"
#endif
#ifdef WEFT_HAS_NCCL
#include "weft/comm/nccl/nccl_communicator.h"
#endif

namespace weft {
namespace {

bool ranks_may_share_a_gpu() {
  const char* const value = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return value && std::string_view(value) == "1";
}

// NCCL's version; 0 if there is none, then `why` says so.
int nccl_version(std::string& why) {
#ifdef WEFT_HAS_NCCL
  try {
    return nccl::version();
  } catch (const Error& error) {
    why = error.what();
  }
#else
  why = "this build has no NCCL (it has no CUDA backend, no nccl.h was found, or WEFT_NCCL is OFF)";
#endif
  return 0;
}

std::string version_text([[maybe_unused]] int version) {
#ifdef WEFT_HAS_NCCL
  if (version) return "NCCL " + nccl::version_text(version);
#endif
  return version ? join("NCCL ", version) : "no NCCL";
}

// The messages between ranks.
struct Facts {
  bool cuda = false;
  bool may_share = ranks_may_share_a_gpu();
  int nccl = 0;
  std::array<char, 16> gpu{};  // its UUID
};

Facts facts_of([[maybe_unused]] Device& device) {
  Facts facts;
#ifdef WEFT_HAS_CUDA
  facts.cuda = device.name().starts_with("cuda:");
  if (!facts.cuda) return facts;
  cudaDeviceProp properties{};
  cuda::require(cudaGetDeviceProperties(&properties, cuda::of(device.stream()).index()), "cuda", "reading the device's properties");
  static_assert(sizeof properties.uuid.bytes == sizeof facts.gpu);
  std::memcpy(facts.gpu.data(), properties.uuid.bytes, sizeof facts.gpu);
  std::string why;
  facts.nccl = nccl_version(why);
#endif
  return facts;
}

void check_equal(const Communicator& host, const std::vector<Facts>& all) {
  for (int rank = 1; rank < host.size(); ++rank) {
    const Facts &first = all[0], &other = all[size_t(rank)];
    check(first.cuda == other.cuda, "communicator", host.name_of(0), first.cuda ? " uses a" : " uses no", " GPU and ", host.name_of(rank),
          other.cuda ? " does" : " does not", ", expected the same device on all ranks");
    check(first.nccl == other.nccl, "communicator", host.name_of(0), " has ", version_text(first.nccl), " and ", host.name_of(rank),
          " has ", version_text(other.nccl), ", expected the same version on all ranks");
  }
}

void check_own_gpus(const Communicator& host, const std::vector<Facts>& all) {
  if (!all[0].cuda) return;
  if (std::all_of(all.begin(), all.end(), [](const Facts& facts) { return facts.may_share; })) return;
  for (int rank = 1; rank < host.size(); ++rank)
    for (int other = 0; other < rank; ++other)
      check(all[size_t(rank)].gpu != all[size_t(other)].gpu, "communicator", host.name_of(other), " and ", host.name_of(rank),
            " use the same GPU, expected one GPU for each of ", host.size(), " ranks");
}

}  // namespace

std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> host, Device& device, [[maybe_unused]] std::chrono::seconds timeout) {
  if (host->size() == 1) return host;
  const std::vector<Facts> all = host->all_gather_values(facts_of(device));
  try {
    check_equal(*host, all);
    check_own_gpus(*host, all);
  } catch (const Error&) {  // on all ranks: rank 0 reports it, and ends the others when it ends
    if (!host->first()) host->barrier();
    throw;
  }
#ifdef WEFT_HAS_NCCL
  if (all[0].nccl) return nccl::connect(std::move(host), device, timeout);
#endif
  return host;
}

std::string cuda_device_of(int local_rank, int local_size) {
  check(local_rank >= 0 && local_rank < local_size, "cuda_device_of", "rank ", local_rank, " of ", local_size, " on this host");
  const std::vector<DeviceEntry> devices = list_devices();
  const auto gpu = [](const DeviceEntry& entry) { return entry.available && entry.name.starts_with("cuda:"); };
  const int gpus = int(std::count_if(devices.begin(), devices.end(), gpu));
  if (gpus == 0) return "cuda:0";  // open_device reports why there is none
  if (local_size <= gpus) return join("cuda:", local_rank);
  if (ranks_may_share_a_gpu()) return join("cuda:", local_rank % gpus);
  // A launcher may give every rank a GPU of its own, each of which is then called cuda:0 (srun --gpus-per-task=1). on_device() compares.
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (gpus == 1 && visible && *visible) return "cuda:0";
  fail(ErrorCode::invalid_argument, "cuda", local_size, " ranks on this host, but ", gpus, " GPU", gpus == 1 ? "" : "s",
       ": start at most one rank for each GPU");
}

std::string nccl_version_text() {
  std::string why;
  const int version = nccl_version(why);
  return version ? version_text(version).substr(std::strlen("NCCL ")) : why;
}

}  // namespace weft
