// The kernels' texts, embedded when the library was built: every .metal of an op, and every header that one of them includes.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft::metal {

struct KernelFile {
  const char* path;  // in the tree: "weft/ops/rope/metal.metal"
  const char* text;
  bool kernels;  // a .metal, not a header
};
std::span<const KernelFile> kernel_files();

// A kernel file as one text: each #include "weft/..." replaced by that file, the first time, with #line, so that compilers
// name the files of the tree, and contraction off. Throws when a file is not among the embedded ones.
std::string source(std::string_view path);

}  // namespace weft::metal
