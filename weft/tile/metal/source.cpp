#include "weft/tile/metal/source.h"

#include <set>

#include "weft/base/check.h"

namespace weft::metal {
namespace {

const KernelFile& find(std::string_view path) {
  for (const KernelFile& file : kernel_files())
    if (path == file.path) return file;
  fail(ErrorCode::unsupported, "metal", "the kernel file '", path, "' is not part of this build");
}

// The file that an include line names, if it is one of the tree; else nothing.
std::string_view included(std::string_view line) {
  constexpr std::string_view kStart = "#include \"";
  if (!line.starts_with(kStart)) return {};
  line.remove_prefix(kStart.size());
  return line.substr(0, line.find('"'));
}

void append(const KernelFile& file, std::set<std::string_view>& seen, std::string& text) {
  seen.insert(file.path);
  text += join("#line 1 \"", file.path, "\"\n");
  std::string_view rest = file.text;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (const std::string_view path = included(line); !path.empty()) {
      if (!seen.contains(path)) append(find(path), seen, text);
      text += join("#line ", number + 1, " \"", file.path, "\"\n");
    } else {
      if (!line.starts_with("#pragma once")) text += line;  // each file is here once anyway
      text += '\n';
    }
  }
}

}  // namespace

std::string source(std::string_view path) {
  std::string text = "#pragma METAL fp contract(off)\n";  // fma only where a kernel says so; safe maths alone does not ensure that
  std::set<std::string_view> seen;
  append(find(path), seen, text);
  return text;
}

}  // namespace weft::metal
