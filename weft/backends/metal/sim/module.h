// A compiled source loaded into memory, with its function constants set.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/backends/metal/sim/shim/abi.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal::sim {

class Module {
 public:
  // The constants are set once, so each set of them has its own copy. Throws `unsupported` if it cannot be loaded.
  Module(std::string path, const std::vector<Constant>& constants);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const weft_sim::Module& table() const { return *table_; }
  const weft_sim::Kernel* find(std::string_view kernel) const;  // null if there is none

  // Whether this address is part of the code or of its constants.
  bool contains(const void* address) const { return address >= low_ && address < high_; }
  // "file:line" of an instruction, from the debug information.
  std::string place_of(const void* code) const;

 private:
  std::string place_at(std::ptrdiff_t offset) const;
  void set(const std::vector<Constant>& constants);

  std::string path_;
  void* handle_ = nullptr;
  const weft_sim::Module* table_ = nullptr;
  const char *low_ = nullptr, *high_ = nullptr;
};

}  // namespace weft::metal::sim
