#include "weft/comm/nccl/library.h"

#include <dlfcn.h>

#include "weft/base/check.h"
#include "weft/comm/nccl/nccl_communicator.h"

namespace weft::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";

// WEFT_NCCL_LIBRARY is the library beside the header that this build found; empty: there was none.
void* opened() {
  std::string tried;
  for (const char* name : {kName, WEFT_NCCL_LIBRARY}) {
    if (!*name) continue;
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* why = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why ? why : name);
  }
  fail(ErrorCode::unsupported, "NCCL", "the library cannot be loaded: ", tried);
}

template <class T>
void find(void* handle, const char* name, T& to) {
  void* symbol = dlsym(handle, name);
  if (!symbol) fail(ErrorCode::unsupported, "NCCL", kName, " has no symbol ", name);
  to = reinterpret_cast<T>(symbol);
}

Library loaded() {
  Library nccl;
  void* handle = opened();
  find(handle, "ncclGetVersion", nccl.GetVersion);
  check(nccl.GetVersion(&nccl.version) == ncclSuccess, "NCCL", "ncclGetVersion failed");
  if (nccl.version < kOldest)
    fail(ErrorCode::unsupported, "NCCL", kName, " is version ", version_text(nccl.version), ", expected ", version_text(kOldest),
         " or newer");
  find(handle, "ncclCommAbort", nccl.CommAbort);
  find(handle, "ncclCommDestroy", nccl.CommDestroy);
  find(handle, "ncclCommGetAsyncError", nccl.CommGetAsyncError);
  find(handle, "ncclCommInitRank", nccl.CommInitRank);
  find(handle, "ncclGetErrorString", nccl.GetErrorString);
  find(handle, "ncclGetLastError", nccl.GetLastError);
  find(handle, "ncclGetUniqueId", nccl.GetUniqueId);
  find(handle, "ncclGroupEnd", nccl.GroupEnd);
  find(handle, "ncclGroupStart", nccl.GroupStart);
  find(handle, "ncclRecv", nccl.Recv);
  find(handle, "ncclSend", nccl.Send);
  return nccl;
}

}  // namespace

const Library& library() {
  static const Library nccl = loaded();
  return nccl;
}

int version() { return library().version; }

// 23007 is 2.30.7; versions before 2.9 count otherwise, and are refused anyway.
std::string version_text(int version) { return join(version / 10000, ".", version / 100 % 100, ".", version % 100); }

std::string describe(ncclResult_t result, ncclComm_t communicator) {
  std::string text = library().GetErrorString(result);
  const char* const last = library().GetLastError(communicator);
  return last && *last ? join(text, " (", last, ")") : text;
}

}  // namespace weft::nccl
