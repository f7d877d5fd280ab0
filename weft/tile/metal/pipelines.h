// Compiled kernels, cached by name and constants: compiling takes a fraction of a second, a lookup half a
// microsecond.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/base/recent.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal {

class Pipelines {
 public:
  static constexpr size_t kMostTexts = 512;
  explicit Pipelines(Gpu& gpu) : gpu_(gpu) {}

  Pipeline& of_file(const char* file, const std::string& kernel, const std::vector<Constant>& constants);
  // `serial` identifies the text. About kMostTexts are cached, least recently used dropped first: a program may make any number of them.
  Pipeline& of_text(uint64_t serial, const std::string& text, const char* kernel);

  // For tests that change a kernel: texts come from here instead of source().
  void use_sources(std::function<std::string(std::string_view file)> sources) { sources_ = std::move(sources); }

 private:
  Gpu& gpu_;
  std::function<std::string(std::string_view)> sources_;
  std::unordered_map<std::string, std::shared_ptr<Library>> libraries_;   // by file
  std::unordered_map<std::string, std::shared_ptr<Pipeline>> pipelines_;  // by file, kernel and constants
  Recent<uint64_t, std::shared_ptr<Pipeline>> texts_;                     // by serial
};

}  // namespace weft::metal
