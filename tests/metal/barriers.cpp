// Deletes each barrier of each kernel in turn. The checked simulator, or the results, must show it in some case of an op that uses it,
// unless the line explains why nothing can: `// redundant: ...`.
//
//   metal_barriers [FILE...]    of these files, by a part of their path; without arguments, of all files embedded in the library
//   metal_barriers 2/8          every eighth, starting at the second
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

#include "weft/backends/metal/metal_device.h"
#include "weft/backends/open.h"
#include "weft/spec/runner.h"
#include "weft/tile/metal/runtime.h"
#include "weft/tile/metal/source.h"

namespace weft {
namespace {

struct Barrier {
  std::string file;
  int line;
  bool redundant;
};

const std::regex kMention(R"(\b(threadgroup|simdgroup)_barrier\b)");
const std::regex kBarrier(R"(\b(metal::)?(threadgroup|simdgroup)_barrier\s*\([^;]*\)\s*;)");

std::vector<Barrier> all_barriers() {
  std::vector<Barrier> found;
  for (const metal::KernelFile& file : metal::kernel_files()) {
    std::istringstream text(file.text);
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
      const std::string code = line.substr(0, line.find("//"));
      const auto mentions = std::distance(std::sregex_iterator(code.begin(), code.end(), kMention), std::sregex_iterator());
      const bool is_barrier = std::regex_search(code, kBarrier);
      if (mentions != int(is_barrier)) {
        std::printf("%s:%d: a barrier is one statement, with a line of its own\n", file.path, number);
        std::exit(2);
      }
      if (is_barrier) found.push_back({file.path, number, line.find("// redundant:") != std::string::npos});
    }
  }
  return found;
}

// The text of a kernel file without this barrier, with the same line numbers; and whether the barrier was found.
std::string without(std::string_view path, const Barrier& barrier, bool& was_there) {
  const std::regex marker("^#line (\\d+) \"([^\"]*)\"$");
  std::istringstream text(metal::source(path));
  std::string line, file, edited;
  int number = 0;
  was_there = false;
  while (std::getline(text, line)) {
    std::smatch match;
    if (std::regex_match(line, match, marker)) {
      number = std::stoi(match[1]);
      file = match[2];
    } else {
      if (file == barrier.file && number == barrier.line) {
        line = std::regex_replace(line, kBarrier, ";", std::regex_constants::format_first_only);
        was_there = true;
      }
      ++number;
    }
    edited += line + '\n';
  }
  return edited;
}

std::set<std::string> ops_using(const Barrier& barrier) {
  std::set<std::string> ops;
  for (const metal::KernelFile& file : metal::kernel_files()) {
    bool used = false;
    const std::string path = file.path;
    if (file.kernels) without(path, barrier, used);
    if (used) ops.insert(path.substr(9, path.find('/', 9) - 9));  // weft/ops/<op>/...
  }
  return ops;
}

// Cases that are large enough to exercise every part of a kernel and small enough to run quickly come first.
std::vector<spec::Case> cases_of(const spec::Registry& registry, const std::set<std::string>& ops) {
  constexpr int64_t kSmall = 12000;
  std::vector<std::pair<int64_t, spec::Case>> sized;
  for (const spec::Case& c : registry.cases()) {
    if (!ops.contains(c.op)) continue;
    int64_t elements = 0;
    const spec::Problem problem = c.make();
    for (const spec::Operand& o : problem.operands()) elements += o.shape.numel();
    sized.push_back({elements <= kSmall ? -elements : elements, c});
  }
  std::stable_sort(sized.begin(), sized.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<spec::Case> cases;
  for (auto& [size, c] : sized) cases.push_back(std::move(c));
  return cases;
}

// The check that detected the missing barrier; empty if none did.
std::string noticed(const spec::Registry& registry, const Barrier& barrier) {
  const auto device = open_device("metal-sim:checked", {.checked = true});
  metal::of(device->stream()).pipelines().use_sources([&](std::string_view path) {
    bool unused;
    return without(path, barrier, unused);
  });
  for (const spec::Case& c : cases_of(registry, ops_using(barrier))) {
    const spec::Outcome outcome = spec::run_case(c, device, {});
    if (outcome.status != spec::Status::failed) continue;
    if (outcome.message.find("does not compile") != std::string::npos) {
      std::printf("%s:%d: %s\n", barrier.file.c_str(), barrier.line, outcome.message.c_str());
      std::exit(2);
    }
    return outcome.name + ": " + outcome.message;
  }
  return "";
}

// "2/8", or everything.
struct Part {
  int number = 1, parts = 1;
};
Part take_part(std::vector<std::string>& arguments) {
  Part part;
  if (arguments.size() == 1 && std::sscanf(arguments[0].c_str(), "%d/%d", &part.number, &part.parts) == 2) arguments.clear();
  return part;
}

int run(std::vector<std::string> files) {
  const Part part = take_part(files);
  spec::Registry registry;
  spec::add_all_specs(registry);
  int needed = 0, redundant = 0, failed = 0, number = 0;
  for (const Barrier& b : all_barriers()) {
    if (number++ % part.parts != part.number - 1) continue;
    if (!files.empty() &&
        std::none_of(files.begin(), files.end(), [&](const std::string& part) { return b.file.find(part) != std::string::npos; }))
      continue;
    const std::string what = noticed(registry, b);
    if (!what.empty() && !b.redundant) {
      ++needed;
      std::printf("needed     %s:%d  (%s)\n", b.file.c_str(), b.line, what.substr(0, what.find('\n')).c_str());
    } else if (what.empty() && b.redundant) {
      ++redundant;
      std::printf("redundant  %s:%d\n", b.file.c_str(), b.line);
    } else {
      ++failed;
      std::printf("FAILED     %s:%d: %s\n", b.file.c_str(), b.line,
                  b.redundant ? ("called redundant, and is not: " + what).c_str()
                              : "nothing detected the missing barrier; if it is provably redundant, mark it: // redundant: ...");
    }
    std::fflush(stdout);
  }
  std::printf("%d needed, %d redundant, %d failed\n", needed, redundant, failed);
  return failed || needed + redundant == 0 ? 1 : 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::run({argv + 1, argv + argc}); }
