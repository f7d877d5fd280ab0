// Models and outputs of Hugging Face's transformers in tests/golden/models (or the folder WEFT_GOLDEN_MODELS).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "weft/io/safetensors.h"
#include "weft/weft.h"

namespace weft::golden {

inline std::string root() {
  const char* elsewhere = std::getenv("WEFT_GOLDEN_MODELS");
  return elsewhere ? elsewhere : WEFT_GOLDEN_MODELS;
}
inline std::string folder(const std::string& model) { return root() + "/" + model; }

// Every folder there with a model's outputs.
inline std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root()))
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

template <class T>
std::vector<T> values(const SafeTensors::Entry& entry) {
  std::vector<T> out(entry.bytes.size() / sizeof(T));
  std::memcpy(out.data(), entry.bytes.data(), entry.bytes.size());
  return out;
}

inline Tensor tensor(Device& device, const SafeTensors::Entry& entry) {
  return Tensor::from_bytes(device, entry.shape, entry.dtype.value(), entry.bytes.data(), int64_t(entry.bytes.size()));
}

// max |difference| over max |reference|.
inline double distance(const std::vector<float>& got, const std::vector<float>& expected) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(double(got[i]) - double(expected[i])));
    largest = std::max(largest, std::abs(double(expected[i])));
  }
  return got.size() == expected.size() ? worst / largest : INFINITY;
}

}  // namespace weft::golden
