// weft support: prints the support matrix from the op tables and the specs. docs/support.md is its output.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "cli/command.h"
#include "weft/backends/open.h"
#include "weft/spec/registry.h"

namespace weft::cli {
namespace {

constexpr const char* kAbsent = "not in this build";

// Lists the dtypes in which an op's specs run: "f32, bf16".
std::string dtypes_of(const std::vector<spec::Case>& cases, const std::string& op) {
  std::string text;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8}) {
    const bool found = std::any_of(cases.begin(), cases.end(), [&](const spec::Case& c) { return c.op == op && c.dtype == dtype; });
    if (found) text += (text.empty() ? "" : ", ") + std::string(name(dtype));
  }
  return text;
}

std::string variants_of(const std::vector<spec::Case>& cases, const std::string& op) {
  std::vector<std::string> variants;
  for (const spec::Case& c : cases)
    if (c.op == op && std::find(variants.begin(), variants.end(), c.variant) == variants.end()) variants.push_back(c.variant);
  std::string text;
  for (const std::string& variant : variants) text += (text.empty() ? "" : ", ") + variant;
  return text;
}

int run() {
  spec::Registry registry;
  spec::add_all_specs(registry);
  const Kernels* const tables[] = {kernels_of("cpu"), kernels_of("cuda"), kernels_of("metal")};
  std::printf(
      "# Support matrix\n\nWritten by `weft support`; a test compares it with this page. Where the contract comes from: "
      "[origins](origins.md).\n\n");
  std::printf("## Kernels\n\nA kernel that a device lacks raises an error that says so; nothing falls back to another device.\n\n");
  std::printf("| kernel | CPU | CUDA | Metal |\n|---|---|---|---|\n");
#define WEFT_PRINT_SLOT(kernel, Args)                                                                                                      \
  std::printf("| `%s` |", #kernel);                                                                                                        \
  for (const Kernels* table : tables) std::printf(" %s |", !table ? kAbsent : table->kernel.supported() ? "yes" : table->kernel.reason()); \
  std::printf("\n");
  WEFT_KERNELS(WEFT_PRINT_SLOT)
#undef WEFT_PRINT_SLOT

  std::printf("\n## What is checked\n\nEvery variant in every dtype, against a float64 reference, on each device that has the kernel.\n\n");
  std::printf("| op | variants | dtypes | cases | rejected arguments |\n|---|---|---|---|---|\n");
  std::vector<std::string> ops;
  for (const spec::Case& c : registry.cases())
    if (std::find(ops.begin(), ops.end(), c.op) == ops.end()) ops.push_back(c.op);
  for (const std::string& op : ops) {
    const auto cases = std::count_if(registry.cases().begin(), registry.cases().end(), [&](const spec::Case& c) { return c.op == op; });
    const auto rejected =
        std::count_if(registry.rejections().begin(), registry.rejections().end(), [&](const spec::Rejection& r) { return r.op == op; });
    std::printf("| `%s` | %s | %s | %ld | %ld |\n", op.c_str(), variants_of(registry.cases(), op).c_str(),
                dtypes_of(registry.cases(), op).c_str(), long(cases), long(rejected));
  }
  return kOk;
}

}  // namespace

Run add_support(CLI::App& app) {
  app.add_subcommand("support", "Print the support matrix as Markdown (docs/support.md)");
  return run;
}

}  // namespace weft::cli
