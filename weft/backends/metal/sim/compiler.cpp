#include "weft/backends/metal/sim/compiler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "weft/backends/metal/sim/embedded.h"
#include "weft/backends/metal/sim/process.h"
#include "weft/backends/metal/sim/rewriter.h"
#include "weft/base/check.h"
#include "weft/io/checksum.h"

namespace weft::metal::sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "metal-sim";

std::string compiler() {
  const char* named = std::getenv("WEFT_METAL_SIM_CLANG");
  return named && *named ? named : WEFT_METAL_SIM_CLANG;
}

// Tells one installed compiler from another without starting it.
std::string compiler_identity() {
  struct stat info {};
  const std::string path = compiler();
  stat(path.c_str(), &info);
  return join(path, " ", info.st_size, " ", info.st_mtime);
}

const std::vector<std::string>& flags(Build build) {
  static const std::vector<std::string> common{
      "-x", "c++", "-std=c++17", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-fsigned-char", "-fno-math-errno", "-fno-omit-frame-pointer", "-w",
#ifdef __x86_64__
      "-march=x86-64-v3",
#endif
      "-Xclang", "-fconvergent-functions", "-Xclang", "-cl-single-precision-constant", "-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none"};
  // The hooks that ThreadSanitizer's pass calls are ours (shim/checks.h). It leaves out vectors, so there must be none. An access
  // made of those of two branches would have no line of its own.
  static const std::vector<std::string> instrumented{
      "-g1", "-gdwarf-4", "-ffile-compilation-dir=.", "-ffp-contract=off", "-fsanitize=thread", "-fno-vectorize", "-fno-slp-vectorize", "-mllvm", "-tsan-instrument-func-entry-exit=0",
      "-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-handle-cxx-exceptions=0", "-mllvm", "-sink-common-insts=false", "-mllvm", "-hoist-common-insts=false",
      "-DWEFT_SIM_INSTRUMENTED"};
  static const auto with = [](std::vector<std::string> more, const std::vector<std::string>& extra = {}) {
    more.insert(more.begin(), common.begin(), common.end());
    more.insert(more.end(), extra.begin(), extra.end());
    return more;
  };
  static const std::map<Build, std::vector<std::string>> all{
      {Build::plain, with({"-O2", "-ffp-contract=off"})},
      {Build::contracted, with({"-O2", "-ffp-contract=fast"})},
      {Build::checked, with(instrumented, {"-O1", "-ftrivial-auto-var-init=pattern",
                               "-fsanitize=alignment,array-bounds,float-cast-overflow,integer-divide-by-zero,return,shift-exponent"})},
      {Build::counted, with(instrumented, {"-O2"})}};
  return all.at(build);
}

fs::path cache_folder() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  for (fs::path base : {xdg && *xdg ? fs::path(xdg) : fs::path(), home && *home ? fs::path(home) / ".cache" : fs::path()}) {
    if (!base.is_absolute()) continue;
    base /= "weft/metal-sim";
    std::error_code error;
    fs::create_directories(base, error);
    if (!error && access(base.c_str(), W_OK) == 0) return base;
  }
  const fs::path own = fs::temp_directory_path() / join("weft-metal-sim-", getuid());
  std::error_code error;
  fs::create_directories(own, error);
  struct stat info {};
  if (error || lstat(own.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid()) {
    fail(ErrorCode::unsupported, kWhere, "no folder for compiled kernels: set XDG_CACHE_HOME");
  }
  fs::permissions(own, fs::perms::owner_all);
  return own;
}

std::string hash(const std::string& text) {
  char name[40];
  const auto bytes = std::as_bytes(std::span(text));
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(xxh64(bytes, 0)), static_cast<unsigned long long>(xxh64(bytes, 1)));
  return name;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) fail(ErrorCode::unsupported, kWhere, "cannot write ", path.string());
}

// Files of this process until they are renamed or removed.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& final_name) {
    static std::atomic<int> serial{0};
    base_ = join(final_name.string(), ".", getpid(), ".", serial++);
  }
  ~Unfinished() {
    std::error_code ignored;
    for (const char* suffix : {".metal", ".cpp", ".so"}) fs::remove(base_ + suffix, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  std::string operator()(const char* suffix) const { return base_ + suffix; }

 private:
  std::string base_;
};

// The headers, written out once for each set of them.
fs::path headers(const fs::path& folder) {
  std::string all;
  for (const EmbeddedFile& file : kShim) all += join(file.name, "\n", file.text, "\n");
  static const std::string key = hash(all);
  const fs::path done = folder / ("headers-" + key);
  if (fs::exists(done)) return done;
  const fs::path unfinished = join(done.string(), ".", getpid());
  fs::create_directories(unfinished / "weft_sim");
  fs::create_directories(unfinished / "metal");
  for (const EmbeddedFile& file : kShim) write(unfinished / "weft_sim" / file.name, file.text);
  for (const char* name : {"metal_stdlib", "metal_atomic", "metal_common", "metal_compute", "metal_geometric", "metal_integer", "metal_limits", "metal_math",
                           "metal_matrix", "metal_numeric", "metal_pack", "metal_relational", "metal_simdgroup", "metal_simdgroup_matrix",
                           "metal_type_traits", "metal_types"}) {
    write(unfinished / "metal" / name, "#include <weft_sim/macros.h>\n");
  }
  std::error_code ignored;
  fs::rename(unfinished, done, ignored);  // another process may have been first
  fs::remove_all(unfinished, ignored);
  return done;
}

// The compiler calls our file by its path in the cache; its reader knows the text by another name.
std::string run_compiler(std::vector<std::string> command, const std::string& path, const std::string& name) {
  ProcessResult result = run_process(command);
  if (result.status == 0) return result.output;
  for (size_t at; (at = result.output.find(path)) != std::string::npos;) result.output.replace(at, path.size(), name);
  fail(ErrorCode::unsupported, name, "does not compile as Metal:\n", result.output);
}

std::string preprocess(const std::string& source, const std::string& name, const fs::path& include) {
  return run_compiler({compiler(), "-x", "c++", "-std=c++17", "-E", "-undef", "-D__METAL__=1", "-D__METAL_VERSION__=310", "-D__METAL_MACOS__=1",
                       "-D__HAVE_BFLOAT__=1", "-isystem", include / "metal", "-isystem", include, source},
                      source, name);
}

}  // namespace

std::string compile(const std::string& text, const std::string& name, Build build) {
  const fs::path folder = cache_folder();
  const fs::path include = headers(folder);
  std::string key = join(compiler_identity(), "\n", include.filename().string(), "\n", kRewriter, "\n", name, "\n");
  for (const std::string& flag : flags(build)) key += flag + " ";
  const fs::path done = folder / (hash(key + "\n" + text) + ".so");
  if (fs::exists(done)) return done;
  const Unfinished unfinished(done);
  write(unfinished(".metal"), join("#line 1 \"", name, "\"\n", text));
  write(unfinished(".cpp"), rewrite(preprocess(unfinished(".metal"), name, include)));
  std::vector<std::string> command{compiler()};
  command.insert(command.end(), flags(build).begin(), flags(build).end());
  for (const std::string& more : {std::string("-isystem"), include.string(), std::string("-shared"), std::string("-nostartfiles"), unfinished(".cpp"),
                                  std::string("-o"), unfinished(".so")}) {
    command.push_back(more);
  }
  run_compiler(command, unfinished(".cpp"), name);
  fs::rename(unfinished(".so"), done);
  return done;
}

}  // namespace weft::metal::sim
