// A simulated device for tests, with data and launches in a few words.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/simulator.h"
#include "weft/base/error.h"

namespace weft::metal {

// Device memory initialised from a vector.
template <class T>
class Data {
 public:
  Data(Gpu& gpu, const std::vector<T>& values) : gpu_(&gpu), count_(values.size()), buffer_(gpu.new_buffer(int64_t(bytes()))) {
    std::memcpy(gpu.contents(buffer_), values.data(), bytes());
  }
  ~Data() { gpu_->delete_buffer(buffer_); }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  size_t bytes() const { return count_ * sizeof(T); }
  Binding at(int index) const { return {index, buffer_, 0, int64_t(bytes()), nullptr}; }
  // Binds only `count` elements from `first` on.
  Binding at(int index, size_t first, size_t count) const {
    return {index, buffer_, int64_t(first * sizeof(T)), int64_t(count * sizeof(T)), nullptr};
  }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    std::memcpy(result.data(), gpu_->contents(buffer_), bytes());
    return result;
  }

 private:
  Gpu* gpu_;
  size_t count_;
  void* buffer_;
};

template <class T>
Binding copied(int index, const T& value) {
  return {index, nullptr, 0, int64_t(sizeof(T)), &value};
}

struct Job {
  std::string kernel;
  std::vector<Binding> bindings;
  std::array<int64_t, 3> groups{1, 1, 1};
  int threads = 32;
  int64_t threadgroup_bytes = 0;
  std::vector<Constant> constants = {};
};

inline std::string mode_name(const testing::TestParamInfo<SimMode>& info) {
  static const char* const names[] = {"forward", "random", "flush", "checked", "counting"};
  return names[size_t(info.param)];
}

inline void run(Gpu& gpu, const std::string& text, const Job& r, const std::string& name = "test.metal") {
  const auto pipeline = gpu.library(text, name)->pipeline(r.kernel, r.constants);
  gpu.encode({"test", pipeline.get(), r.bindings, r.groups, r.threads, r.threadgroup_bytes});
  gpu.wait();
}

// The message of an error, or "" if there is none.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace weft::metal
