// Kernels made ready, found by what was asked for the next time: compiling takes a fraction of a second, a lookup half a
// microsecond.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

class Pipelines {
 public:
  explicit Pipelines(Gpu& gpu) : gpu_(gpu) {}

  Pipeline& of_file(const char* file, const std::string& kernel, const std::vector<Constant>& constants);
  // `serial` stands for the text.
  Pipeline& of_text(uint64_t serial, const std::string& text, const char* kernel);

 private:
  Gpu& gpu_;
  std::unordered_map<std::string, std::shared_ptr<Library>> libraries_;   // by file
  std::unordered_map<std::string, std::shared_ptr<Pipeline>> pipelines_;  // by file, kernel and constants
  std::unordered_map<uint64_t, std::shared_ptr<Pipeline>> texts_;         // by serial
};

}  // namespace weft::metal
