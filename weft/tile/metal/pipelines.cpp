#include "weft/tile/metal/pipelines.h"

#include "weft/base/check.h"
#include "weft/tile/metal/source.h"

namespace weft::metal {
namespace {

std::string key_of(const char* file, const std::string& kernel, const std::vector<Constant>& constants) {
  std::string key = file;
  (key += ':') += kernel;
  for (const Constant& c : constants) {
    const uint32_t words[2] = {uint32_t(c.index) << 8 | uint32_t(c.type), c.bits};
    key.append(reinterpret_cast<const char*>(words), sizeof words);
  }
  return key;
}

// A kernel that does not compile is a bug of this library, not a missing feature of the device.
template <class F>
std::shared_ptr<Pipeline> compiled(const std::string& kernel, const F& make) {
  try {
    return make();
  } catch (const Error& error) {
    fail(ErrorCode::device_fault, error.where(), "kernel ", kernel, ": ", error.what());
  }
}

}  // namespace

Pipeline& Pipelines::of_file(const char* file, const std::string& kernel, const std::vector<Constant>& constants) {
  std::shared_ptr<Pipeline>& pipeline = pipelines_[key_of(file, kernel, constants)];
  if (!pipeline)
    pipeline = compiled(kernel, [&] {
      std::shared_ptr<Library>& library = libraries_[file];
      if (!library) library = gpu_.library(sources_ ? sources_(file) : source(file), file);
      return library->pipeline(kernel, constants);
    });
  return *pipeline;
}

Pipeline& Pipelines::of_text(uint64_t serial, const std::string& text, const char* kernel) {
  if (const auto* found = texts_.find(serial)) return **found;
  if (texts_.size() >= kMostTexts) {
    gpu_.wait();  // a dropped pipeline may still be in use
    texts_.keep(kMostTexts * 3 / 4);
  }
  return *texts_.add(serial, compiled(kernel, [&] { return gpu_.library(text, kernel)->pipeline(kernel, {}); }));
}

}  // namespace weft::metal
