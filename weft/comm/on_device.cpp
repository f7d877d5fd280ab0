#include "weft/comm/on_device.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "weft/backends/open.h"
#include "weft/base/check.h"

namespace weft {
namespace {

bool ranks_may_share_a_gpu() {
  const char* const value = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return value && std::string_view(value) == "1";
}

}  // namespace

std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> host, Device&, std::chrono::seconds) { return host; }

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

std::string nccl_version_text() { return "this build has no NCCL"; }

}  // namespace weft
