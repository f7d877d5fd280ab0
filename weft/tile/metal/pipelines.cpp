#include "weft/tile/metal/pipelines.h"

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

}  // namespace

Pipeline& Pipelines::of_file(const char* file, const std::string& kernel, const std::vector<Constant>& constants) {
  std::shared_ptr<Pipeline>& pipeline = pipelines_[key_of(file, kernel, constants)];
  if (!pipeline) {
    std::shared_ptr<Library>& library = libraries_[file];
    if (!library) library = gpu_.library(source(file), file);
    pipeline = library->pipeline(kernel, constants);
  }
  return *pipeline;
}

Pipeline& Pipelines::of_text(uint64_t serial, const std::string& text, const char* kernel) {
  std::shared_ptr<Pipeline>& pipeline = texts_[serial];
  if (!pipeline) pipeline = gpu_.library(text, kernel)->pipeline(kernel, {});
  return *pipeline;
}

}  // namespace weft::metal
