#include "weft/tile/cuda/modules.h"

#include <nvrtc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "weft/tile/cuda/runtime.h"

namespace weft::cuda {
namespace {

namespace fs = std::filesystem;

std::string compiler_version() {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return join("nvrtc ", major, ".", minor);
}

std::vector<char> compile(const std::string& text, int capability) {
  nvrtcProgram program = nullptr;
  const auto require = [&](nvrtcResult result, const char* what) {
    if (result == NVRTC_SUCCESS) return;
    size_t size = 0;
    std::string log;
    if (program && nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS) {
      log.resize(size);
      nvrtcGetProgramLog(program, log.data());
    }
    fail(ErrorCode::device_fault, "nvrtc", what, " failed: ", nvrtcGetErrorString(result), "\n", log);
  };
  require(nvrtcCreateProgram(&program, text.c_str(), "weft.cu", 0, nullptr, nullptr), "creating a program");
  const std::string architecture = join("--gpu-architecture=sm_", capability);
  const char* options[] = {architecture.c_str(), "--std=c++17", "--fmad=false"};
  require(nvrtcCompileProgram(program, 3, options), "compiling");
  size_t size = 0;
  require(nvrtcGetCUBINSize(program, &size), "reading the binary");
  std::vector<char> binary(size);
  require(nvrtcGetCUBIN(program, binary.data()), "reading the binary");
  nvrtcDestroyProgram(&program);
  return binary;
}

// Where to keep binaries; nothing where there is no such place.
std::optional<fs::path> cache_folder() {
  if (const char* off = std::getenv("WEFT_KERNEL_CACHE"); off && std::strcmp(off, "off") == 0) return {};
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder = xdg && *xdg ? fs::path(xdg) : home && *home ? fs::path(home) / ".cache" : fs::path();
  if (folder.empty() || !folder.is_absolute()) return {};
  folder /= "weft/kernels";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return {};
  return folder;
}

uint64_t hash(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3u;
  return h;
}

// A file is: key, a zero byte, the binary.
std::vector<char> read(const fs::path& path, const std::string& key) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> all((std::istreambuf_iterator<char>(in)), {});
  if (all.size() <= key.size() + 1 || std::memcmp(all.data(), key.c_str(), key.size() + 1) != 0) return {};
  return {all.begin() + std::ptrdiff_t(key.size()) + 1, all.end()};
}

void write(const fs::path& path, const std::string& key, const std::vector<char>& binary) {
  const fs::path unfinished = join(path.string(), ".", getpid());
  {
    std::ofstream out(unfinished, std::ios::binary);
    out.write(key.c_str(), std::streamsize(key.size()) + 1);
    out.write(binary.data(), std::streamsize(binary.size()));
    if (!out.flush()) {
      out.close();
      std::error_code ignored;
      fs::remove(unfinished, ignored);
      return;  // a cache that cannot be written is no error
    }
  }
  std::error_code ignored;
  fs::rename(unfinished, path, ignored);
}

}  // namespace

class Modules::Module {
 public:
  Module(int device, const std::vector<char>& code, const char* name) : device_(device) {
    cudaSetDevice(device_);
    require(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "elementwise", "loading a compiled kernel");
    const cudaError_t found = cudaLibraryGetKernel(&kernel_, library_, name);
    if (found != cudaSuccess) cudaLibraryUnload(library_);
    require(found, "elementwise", "finding a compiled kernel");
  }
  ~Module() {
    cudaSetDevice(device_);
    cudaLibraryUnload(library_);
  }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  cudaKernel_t kernel() const { return kernel_; }

 private:
  const int device_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

std::vector<char> Modules::binary(const std::string& text) {
  const std::optional<fs::path> folder = cache_folder();
  if (!folder) return compile(text, capability_);
  const std::string key = join(compiler_version(), " sm_", capability_, "\n", text);
  char name[32];
  std::snprintf(name, sizeof name, "%016llx.cubin", static_cast<unsigned long long>(hash(key)));
  std::vector<char> found = read(*folder / name, key);
  if (!found.empty()) return found;
  found = compile(text, capability_);
  write(*folder / name, key, found);
  return found;
}

cudaKernel_t Modules::kernel(uint64_t serial, const std::string& text, const char* name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Module>* known = known_.find(serial);
  if (!known) {
    make_room();
    known = &known_.add(serial, load(text, name));
  }
  if (held_) held_->push_back(*known);
  return (*known)->kernel();
}

std::shared_ptr<const Modules::Module> Modules::load(const std::string& text, const char* name) {
  std::weak_ptr<const Module>& loaded = loaded_[text];
  if (auto found = loaded.lock()) return found;
  const auto module = std::make_shared<const Module>(device_, binary(text), name);
  loaded = module;
  return module;
}

// Not while a graph is captured: nothing could be waited for.
void Modules::make_room() {
  if (known_.size() < kMost || held_) return;
  cudaSetDevice(device_);
  require(cudaDeviceSynchronize(), "elementwise", "waiting before compiled kernels are forgotten");
  known_.keep(kMost * 3 / 4);
  std::erase_if(loaded_, [](const auto& entry) { return entry.second.expired(); });
}

void Modules::hold(Held* held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
}

}  // namespace weft::cuda
