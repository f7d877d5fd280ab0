#include "weft/backends/metal/sim/compiler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "weft/backends/metal/sim/embedded.h"
#include "weft/backends/metal/sim/process.h"
#include "weft/backends/metal/sim/rewriter.h"
#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/io/file_cache.h"

namespace weft::metal::sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "metal-sim";
constexpr int64_t kMostBytes = int64_t(1) << 30;  // limit of compiled kernels on disk

std::string compiler() {
  const char* named = std::getenv("WEFT_METAL_SIM_CLANG");
  return named && *named ? named : WEFT_METAL_SIM_CLANG;
}

// Identifies an installed compiler without starting it.
std::string compiler_identity() {
  struct stat info{};
  const std::string path = compiler();
  stat(path.c_str(), &info);
  return join(path, " ", info.st_size, " ", info.st_mtime);
}

const std::vector<std::string>& flags(Build build) {
  static const std::vector<std::string> common{"-x",
                                               "c++",
                                               "-std=c++17",
                                               "-fPIC",
                                               "-fno-exceptions",
                                               "-fno-rtti",
                                               "-fvisibility=hidden",
                                               "-fsigned-char",
                                               "-fno-math-errno",
                                               "-fno-omit-frame-pointer",
                                               "-w",
#ifdef __x86_64__
                                               "-march=x86-64-v3",
#endif
                                               "-Xclang",
                                               "-fconvergent-functions",
                                               "-Xclang",
                                               "-cl-single-precision-constant",
                                               "-Xclang",
                                               "-ffloat16-excess-precision=none",
                                               "-Xclang",
                                               "-fbfloat16-excess-precision=none"};
  // ThreadSanitizer's pass calls hooks that we define (shim/checks.h). It ignores vector accesses, so vectorisation is off. Merging the
  // accesses of two branches is off too: the merged access would have no line of its own.
  static const std::vector<std::string> instrumented{"-g1",
                                                     "-gdwarf-4",
                                                     "-ffile-compilation-dir=.",
                                                     "-ffp-contract=off",
                                                     "-fsanitize=thread",
                                                     "-fno-vectorize",
                                                     "-fno-slp-vectorize",
                                                     "-mllvm",
                                                     "-tsan-instrument-func-entry-exit=0",
                                                     "-mllvm",
                                                     "-tsan-instrument-read-before-write=1",
                                                     "-mllvm",
                                                     "-tsan-handle-cxx-exceptions=0",
                                                     "-mllvm",
                                                     "-sink-common-insts=false",
                                                     "-mllvm",
                                                     "-hoist-common-insts=false",
                                                     "-DWEFT_SIM_INSTRUMENTED"};
  static const auto with = [](std::vector<std::string> more, const std::vector<std::string>& extra = {}) {
    more.insert(more.begin(), common.begin(), common.end());
    more.insert(more.end(), extra.begin(), extra.end());
    return more;
  };
  static const std::map<Build, std::vector<std::string>> all{
      {Build::plain, with({"-O2", "-ffp-contract=off"})},
      {Build::contracted, with({"-O2", "-ffp-contract=fast"})},
      {Build::checked,
       with(instrumented, {"-O1", "-ftrivial-auto-var-init=pattern",
                           "-fsanitize=alignment,array-bounds,float-cast-overflow,integer-divide-by-zero,return,shift-exponent"})},
      {Build::counted, with(instrumented, {"-O2"})}};
  return all.at(build);
}

fs::path kernels_folder() {
  if (const std::optional<fs::path> folder = cache_folder("metal-sim")) return *folder;
  const fs::path own = fs::temp_directory_path() / join("weft-metal-sim-", getuid());
  std::error_code error;
  fs::create_directories(own, error);
  struct stat info{};
  if (error || lstat(own.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid()) {
    fail(ErrorCode::unsupported, kWhere, "no folder for compiled kernels: set XDG_CACHE_HOME");
  }
  fs::permissions(own, fs::perms::owner_all);
  return own;
}

std::string hash(const std::string& text) {
  char name[40];
  const auto bytes = std::as_bytes(std::span(text));
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(xxh64(bytes, 0)),
                static_cast<unsigned long long>(xxh64(bytes, 1)));
  return name;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) fail(ErrorCode::unsupported, kWhere, "cannot write ", path.string());
}

bool holds(const fs::path& path, const std::string& text) {
  std::ifstream in(path, std::ios::binary);
  return in && std::string(std::istreambuf_iterator<char>(in), {}) == text;
}

// A temporary folder, unique among processes also across containers; removed at the end with its contents.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& folder) : path_((folder / join(kPrefix, "XXXXXX")).string()) {
    remove_old(folder);
    if (!::mkdtemp(path_.data())) fail(ErrorCode::unsupported, kWhere, "cannot create a folder in ", folder.string());
  }
  ~Unfinished() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  fs::path path() const { return path_; }
  std::string operator()(const char* name) const { return path_ + "/" + name; }

 private:
  static constexpr const char* kPrefix = "unfinished-";

  // Remove folders left by killed processes.
  static void remove_old(const fs::path& folder) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      const bool unfinished = entry.path().filename().string().starts_with(kPrefix);
      if (unfinished && entry.last_write_time(ignored) + std::chrono::hours(1) < fs::file_time_type::clock::now())
        fs::remove_all(entry.path(), ignored);
    }
  }

  std::string path_;
};

// The headers by their names below the include folder.
std::map<std::string, std::string> header_files() {
  std::map<std::string, std::string> files;
  for (const EmbeddedFile& file : kShim) files[join("weft_sim/", file.name)] = file.text;
  for (const char* name : {"metal_stdlib", "metal_atomic", "metal_common", "metal_compute", "metal_geometric", "metal_integer",
                           "metal_limits", "metal_math", "metal_matrix", "metal_numeric", "metal_pack", "metal_relational",
                           "metal_simdgroup", "metal_simdgroup_matrix", "metal_type_traits", "metal_types"}) {
    files[join("metal/", name)] = "#include <weft_sim/macros.h>\n";
  }
  return files;
}

// Writes the headers once per version of them, and again if one of them is damaged.
fs::path headers(const fs::path& folder) {
  const std::map<std::string, std::string> files = header_files();
  std::string all;
  for (const auto& [name, text] : files) all += join(name, "\n", text, "\n");
  const fs::path done = folder / ("headers-" + hash(all));
  if (std::all_of(files.begin(), files.end(), [&](const auto& file) { return holds(done / file.first, file.second); })) return done;
  const Unfinished unfinished(folder);
  const fs::path made = unfinished.path() / "headers";
  for (const auto& [name, text] : files) {
    fs::create_directories((made / name).parent_path());
    write(made / name, text);
  }
  std::error_code ignored;
  fs::remove_all(done, ignored);
  fs::rename(made, done, ignored);  // fails harmlessly if another process was first
  return done;
}

// Replaces the path in the cache by the source's own name in the compiler's messages.
std::string run_compiler(std::vector<std::string> command, const std::string& path, const std::string& name) {
  ProcessResult result = run_process(command);
  if (result.status == 0) return result.output;
  for (size_t at; (at = result.output.find(path)) != std::string::npos;) result.output.replace(at, path.size(), name);
  fail(ErrorCode::unsupported, name, "does not compile as Metal:\n", result.output);
}

std::string preprocess(const std::string& source, const std::string& name, const fs::path& include) {
  return run_compiler({compiler(), "-x", "c++", "-std=c++17", "-E", "-undef", "-D__METAL__=1", "-D__METAL_VERSION__=310",
                       "-D__METAL_MACOS__=1", "-D__HAVE_BFLOAT__=1", "-isystem", include / "metal", "-isystem", include, source},
                      source, name);
}

}  // namespace

std::string compile(const std::string& text, const std::string& name, Build build) {
  const fs::path folder = kernels_folder();
  const fs::path include = headers(folder);
  std::string key = join(compiler_identity(), "\n", include.filename().string(), "\n", kRewriter, "\n", name, "\n");
  for (const std::string& flag : flags(build)) key += flag + " ";
  key += "\n" + text;
  FileCache cache(folder, ".so", cache_limit("WEFT_METAL_SIM_CACHE_MIB", kMostBytes));
  if (const auto found = cache.find(key)) return found->path;
  const Unfinished unfinished(folder);
  write(unfinished("kernel.metal"), join("#line 1 \"", name, "\"\n", text));
  write(unfinished("kernel.cpp"), rewrite(preprocess(unfinished("kernel.metal"), name, include)));
  std::vector<std::string> command{compiler()};
  command.insert(command.end(), flags(build).begin(), flags(build).end());
  for (const std::string& more : {std::string("-isystem"), include.string(), std::string("-shared"), std::string("-nostartfiles"),
                                  unfinished("kernel.cpp"), std::string("-o"), unfinished("kernel.so")}) {
    command.push_back(more);
  }
  run_compiler(command, unfinished("kernel.cpp"), name);
  std::ifstream made(unfinished("kernel.so"), std::ios::binary);
  const std::optional<fs::path> cached = cache.keep(key, std::string(std::istreambuf_iterator<char>(made), {}));
  if (!cached) fail(ErrorCode::unsupported, kWhere, "cannot write to ", folder.string());
  return *cached;
}

}  // namespace weft::metal::sim
