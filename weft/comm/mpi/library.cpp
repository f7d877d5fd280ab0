#include "weft/comm/mpi/library.h"

#include <dlfcn.h>

#include <string_view>

#include "weft/base/check.h"

namespace weft::mpi {
namespace {

// The names that the implementation's ABI has: Open MPI 1.7 to 5; MPICH 3.1 or newer and those that share its ABI (Debian calls it
// libmpich).
#if defined(OPEN_MPI) && defined(__APPLE__)
constexpr const char* kNames[] = {"libmpi.40.dylib", WEFT_MPI_LIBRARY};
#elif defined(OPEN_MPI)
constexpr const char* kNames[] = {"libmpi.so.40", WEFT_MPI_LIBRARY};
#elif defined(__APPLE__)
constexpr const char* kNames[] = {"libmpi.12.dylib", WEFT_MPI_LIBRARY};
#else
constexpr const char* kNames[] = {"libmpi.so.12", "libmpich.so.12", WEFT_MPI_LIBRARY};
#endif

void* opened() {
  std::string tried;
  for (const char* name : kNames) {
    if (!*name) continue;
    // Global: Open MPI's plugins look for its symbols in the process.
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return handle;
    const char* why = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why ? why : name);
  }
  fail(ErrorCode::unsupported, "MPI", "the library cannot be loaded: ", tried);
}

template <class T>
void find(void* handle, const char* name, T& to) {
  void* symbol = dlsym(handle, name);
  if (!symbol) fail(ErrorCode::unsupported, "MPI", kNames[0], " has no symbol ", name);
  to = reinterpret_cast<T>(symbol);
}

Library loaded() {
  Library mpi;
  void* handle = opened();
  find(handle, "MPI_Abort", mpi.Abort);
  find(handle, "MPI_Comm_dup", mpi.Comm_dup);
  find(handle, "MPI_Comm_rank", mpi.Comm_rank);
  find(handle, "MPI_Comm_set_errhandler", mpi.Comm_set_errhandler);
  find(handle, "MPI_Comm_size", mpi.Comm_size);
  find(handle, "MPI_Error_class", mpi.Error_class);
  find(handle, "MPI_Error_string", mpi.Error_string);
  find(handle, "MPI_Finalize", mpi.Finalize);
  find(handle, "MPI_Get_count", mpi.Get_count);
  find(handle, "MPI_Get_library_version", mpi.Get_library_version);
  find(handle, "MPI_Init_thread", mpi.Init_thread);
  find(handle, "MPI_Initialized", mpi.Initialized);
  find(handle, "MPI_Iprobe", mpi.Iprobe);
  find(handle, "MPI_Irecv", mpi.Irecv);
  find(handle, "MPI_Isend", mpi.Isend);
  find(handle, "MPI_Recv", mpi.Recv);
  find(handle, "MPI_Testsome", mpi.Testsome);
#ifdef OPEN_MPI
  find(handle, "ompi_mpi_comm_world", mpi.comm_world);
  find(handle, "ompi_mpi_byte", mpi.byte);
  find(handle, "ompi_mpi_errors_return", mpi.errors_return);
  find(handle, "ompi_request_null", mpi.request_null);
#else
  mpi.comm_world = MPI_COMM_WORLD;
  mpi.byte = MPI_BYTE;
  mpi.errors_return = MPI_ERRORS_RETURN;
  mpi.request_null = MPI_REQUEST_NULL;
#endif
  return mpi;
}

}  // namespace

const Library& library() {
  static const Library mpi = loaded();
  return mpi;
}

// Open MPI: "Open MPI v4.1.4, package: Debian OpenMPI, ...". MPICH: "MPICH Version:\t4.0.2\nMPICH Release date: ...".
std::string version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  library().Get_library_version(text, &length);
  std::string line(text, static_cast<size_t>(length));
  line = line.substr(0, line.find_first_of(",\n"));
  if (const size_t at = line.find("Version:\t"); at != line.npos) line.erase(at, std::string_view("Version:\t").size());
  if (const size_t at = line.find(" v"); at != line.npos && at + 2 < line.size() && line[at + 2] >= '0' && line[at + 2] <= '9')
    line.erase(at + 1, 1);
  return line;
}

}  // namespace weft::mpi
