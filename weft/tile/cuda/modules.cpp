#include "weft/tile/cuda/modules.h"

#include <nvrtc.h>

#include <cstdlib>
#include <cstring>

#include "weft/tile/cuda/runtime.h"

namespace weft::cuda {
namespace {

constexpr int64_t kMostBytes = int64_t(256) << 20;  // of compiled kernels on disk

std::string compiler_version() {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return join("nvrtc ", major, ".", minor);
}

std::vector<std::string> options(int capability) { return {join("--gpu-architecture=sm_", capability), "--std=c++17", "--fmad=false"}; }

std::string compile(const std::string& text, const std::vector<std::string>& options) {
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
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  require(nvrtcCompileProgram(program, int(words.size()), words.data()), "compiling");
  size_t size = 0;
  require(nvrtcGetCUBINSize(program, &size), "reading the binary");
  std::string binary(size, '\0');
  require(nvrtcGetCUBIN(program, binary.data()), "reading the binary");
  nvrtcDestroyProgram(&program);
  return binary;
}

// Everything that a binary depends on.
std::string cache_key(const std::string& text, const std::vector<std::string>& options) {
  std::string key = compiler_version();
  for (const std::string& option : options) key += " " + option;
  return key + "\n" + text;
}

std::optional<FileCache> open_cache() {
  if (const char* off = std::getenv("WEFT_KERNEL_CACHE"); off && std::strcmp(off, "off") == 0) return {};
  const auto folder = cache_folder("kernels");
  if (!folder) return {};
  return FileCache(*folder, ".cubin", cache_limit("WEFT_KERNEL_CACHE_MIB", kMostBytes));
}

}  // namespace

class Modules::Module {
 public:
  Module(int device, const std::string& code, const char* name) : device_(device) {
    cudaSetDevice(device_);
    require(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "elementwise",
            "loading a compiled kernel");
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

Modules::Modules(int device, int capability) : device_(device), capability_(capability), cache_(open_cache()) {}

std::string Modules::binary(const std::string& text) {
  const std::vector<std::string> with = options(capability_);
  if (!cache_) return compile(text, with);
  const std::string key = cache_key(text, with);
  if (auto found = cache_->find(key)) return std::move(found->value);
  std::string made = compile(text, with);
  cache_->keep(key, made);
  return made;
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
