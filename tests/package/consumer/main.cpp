#include <cmath>
#include <cstdio>
#include <weft/weft.h>

int main() {
  const auto device = weft::open_device("cpu");
  const auto x = weft::Tensor::from_host<float>(*device, {1, 4}, std::vector<float>{1, 2, 3, 4});
  const auto w = weft::Tensor::from_host<float>(*device, {4}, std::vector<float>{1, 1, 1, 1});
  const auto y = weft::rms_norm(x, w, 0.0f).to_host<float>();
  std::printf("%s: %g %g %g %g\n", device->name().c_str(), y[0], y[1], y[2], y[3]);
  try {  // the library's own dependencies must be found too
    weft::Tokenizer::parse("{}", "empty");
    return 1;
  } catch (const weft::Error& error) {
    std::printf("%s\n", error.what());
  }
  for (const weft::EngineEntry& engine : weft::list_engines()) std::printf("%s: %s\n", engine.name.c_str(), engine.text.c_str());
  if (weft::open_communicator()->size() != 1) return 1;
  return std::abs(y[3] - 4 / std::sqrt(7.5f)) < 1e-5f ? 0 : 1;
}
