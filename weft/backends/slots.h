// The slots of a backend's table, one for each line of WEFT_KERNELS. A table.cpp reads:
//
//   namespace weft::cuda {
//   WEFT_KERNELS(WEFT_DECLARE_KERNEL)
//   constexpr auto kBackend = &UnsupportedOn::cuda;
//   const Kernels& kernels() {
//     static constexpr Kernels kTable = {WEFT_KERNELS(WEFT_SLOT)};
//     return kTable;
//   }
//   }
//
// A slot holds the kernel of that name in the backend's namespace; one that is not defined does not link. Where the op's Args
// have a kUnsupportedOn (weft/device/kernels.h) for the backend, the slot holds its reason instead.
#pragma once

#include "weft/device/kernels.h"
#include "weft/ops/ops.h"

namespace weft {

template <class Args>
constexpr const char* reason_unsupported(const char* UnsupportedOn::* backend) {
  if constexpr (requires { Args::kUnsupportedOn; })
    return Args::kUnsupportedOn.*backend;
  else
    return nullptr;
}

}  // namespace weft

#define WEFT_DECLARE_KERNEL(kernel, Args) void kernel(Stream& stream, const Args& args);
#define WEFT_SLOT(kernel, Args)                                                           \
  .kernel = [] {                                                                          \
    if constexpr (constexpr auto reason = reason_unsupported<Args>(kBackend); reason)     \
      return Slot<Args>(unsupported(reason));                                             \
    else                                                                                  \
      return Slot<Args>(kernel); /* no reference to the kernel where this is discarded */ \
  }(),
