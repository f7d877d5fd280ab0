// The same code on another device: CUDA, Metal, or the simulator of Metal, whichever this build and machine have first.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <weft/weft.h>
using namespace weft;

// Null when no device but the CPU can be opened; prints why.
std::shared_ptr<Device> open_accelerator() {
  for (const char* name : {"cuda", "metal", "metal-sim"}) try {
      return open_device(name);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      std::printf("no %s: %s\n", name, error.what());
    }
  return nullptr;
}

// Everything below is device-independent: a tensor lives on the device that made it, and results stay there.
std::vector<float> gradient(Device& device) {
  const Tensor x = Tensor::from_host(device, {8, 32}, normal_values(8 * 32, /*seed=*/1));
  const Tensor w = Tensor::from_host(device, {32, 4}, normal_values(32 * 4, /*seed=*/2)).set_requires_grad();
  const Tensor y = softmax(matmul(x, w));
  sum_all(y * y).backward();
  return w.grad().to_host<float>();  // waits for the device
}

int main() {
  const auto device = open_accelerator();
  if (!device) {
    std::printf("this machine has no device other than the CPU\n");
    return 0;
  }
  const auto cpu = open_device("cpu");
  const std::vector<float> here = gradient(*cpu), there = gradient(*device);
  float difference = 0;
  for (size_t i = 0; i < here.size(); ++i) difference = std::max(difference, std::abs(here[i] - there[i]));
  std::printf("%s: the gradient differs from the CPU's by at most %.1e\n", device->description().c_str(), difference);
  return difference < 1e-5f ? 0 : 1;
}
