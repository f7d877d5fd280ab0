// NCCL's library, loaded at run time. Only its header is needed to build; the tool starts where there is no NCCL.
#pragma once

#include <nccl.h>

#include <string>

namespace weft::nccl {

constexpr int kOldest = NCCL_VERSION(2, 18, 0);  // older ones are untried

// The functions that we call, by their names without the prefix.
struct Library {
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclCommDestroy) CommDestroy;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclCommInitRank) CommInitRank;
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclGetVersion) GetVersion;
  decltype(&ncclGroupEnd) GroupEnd;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclRecv) Recv;
  decltype(&ncclSend) Send;
  int version = 0;  // as in NCCL_VERSION_CODE
};

// Loads the library once. Throws `unsupported`, naming what was tried, if it cannot be loaded or is too old.
const Library& library();

// NCCL's words for a result, and its last message where there is one.
std::string describe(ncclResult_t result, ncclComm_t communicator);

}  // namespace weft::nccl
