#include "weft/train/same_on_ranks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#if __has_include(<link.h>)
#include <link.h>
#endif
#if __has_include(<gnu/libc-version.h>)
#include <gnu/libc-version.h>
#endif

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/checksum.h"
#include "weft/io/mapped_file.h"
#include "weft/train/agreement.h"
#include "weft/train/checkpoint.h"
#include "weft/train/run_facts.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
  return text;
}

std::string hash_of_file(const std::string& path) { return hexadecimal(xxh64(MappedFile(path).bytes())); }

// The files of the shared libraries that are loaded.
std::set<std::string> loaded_libraries() {
  std::set<std::string> paths;
#if __has_include(<link.h>)
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        if (info->dlpi_name && *info->dlpi_name) static_cast<std::set<std::string>*>(into)->insert(info->dlpi_name);
        return 0;
      },
      &paths);
#endif
  return paths;
}

// "libstdc++.so.6.0.30", from a path that may be a link. Libraries of weft itself are told apart by their contents.
std::string version_of_library(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  const std::string name = (error ? fs::path(path) : real).filename().string();
  return name.starts_with("libweft") && !error ? join(name, " ", hash_of_file(real.string())) : name;
}

std::string libraries() {
  constexpr std::array kOfResults = {"libweft", "libstdc++", "libm.", "libmpi.", "libcublas", "libnccl"};
  std::set<std::string> names;
  for (const std::string& path : loaded_libraries()) {
    const std::string name = fs::path(path).filename().string();
    if (std::any_of(kOfResults.begin(), kOfResults.end(), [&](const char* of) { return name.starts_with(of); }))
      names.insert(version_of_library(path));
  }
  std::string text;
#if __has_include(<gnu/libc-version.h>)
  text = join("glibc ", ::gnu_get_libc_version());
#endif
  for (const std::string& name : names) text += join(text.empty() ? "" : ", ", name);
  return text;
}

// Names and values in turn, each after its length.
std::string packed(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += join(fact.name.size(), ":", fact.name, fact.value.size(), ":", fact.value);
  return text;
}

std::string take(std::string_view& from) {
  const size_t colon = from.find(':');
  if (colon == from.npos) return "";
  const size_t size = std::min<size_t>(std::strtoull(std::string(from.substr(0, colon)).c_str(), nullptr, 10), from.size() - colon - 1);
  const std::string text(from.substr(colon + 1, size));
  from.remove_prefix(colon + 1 + size);
  return text;
}

std::vector<Fact> unpacked(std::string_view text) {
  std::vector<Fact> facts;
  while (text.find(':') != text.npos) {
    std::string name = take(text);
    facts.push_back({std::move(name), take(text)});
  }
  return facts;
}

}  // namespace

void check_same(Communicator& communicator, const std::vector<Fact>& facts) {
  if (communicator.size() == 1) return;
  std::vector<std::vector<Fact>> all;
  for (const std::string& text : communicator.all_gather(packed(facts))) all.push_back(unpacked(text));
  for (size_t i = 0; i < all[0].size(); ++i)
    for (size_t rank = 1; rank < all.size(); ++rank) {
      const Fact none, &first = all[0][i], &other = i < all[rank].size() ? all[rank][i] : none;
      if (other.name == first.name && other.value == first.value) continue;
      throw AgreedError(ErrorCode::invalid_argument, "train",
                        join("ranks must have the same ", first.name, ": ", communicator.name_of(0), " has ", first.value, ", ",
                             communicator.name_of(int(rank)), " has ", other.value.empty() ? "none" : other.value));
    }
}

std::vector<Fact> build_facts() {
  std::string executable = "unknown";
  try {
    executable = hash_of_file("/proc/self/exe");
  } catch (const Error&) {  // systems without /proc: the version has to do
  }
  return {{"build", join("weft ", version_text(), " (", executable, ")")}, {"libraries", libraries()}};
}

std::string weights_checksum(const Model& model) {
  constexpr int64_t kPiece = int64_t(8) << 20;
  uint64_t hash = 0;
  std::vector<std::byte> buffer;
  const std::vector<Parameter> parameters = model.all_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    report_progress({.what = "comparing weights", .done = int64_t(i), .total = int64_t(parameters.size())});
    const SavedTensor tensor = saved(parameters[i]);
    const int64_t bytes = tensor.shape.numel() * size_of(tensor.dtype);
    for (int64_t at = 0; at < bytes; at += kPiece) {
      buffer.resize(size_t(std::min(kPiece, bytes - at)));
      tensor.read(at, buffer);
      hash = xxh64(buffer, hash);
    }
  }
  return hexadecimal(hash);
}

std::vector<Fact> setting_facts(const TrainConfig& config) {
  constexpr std::array kOfTheRank = {"data",           "validation_data",           "tokenizer", "cache",
                                     "evaluate_tasks", "evaluate_tasks_shots_data", "device",    "threads"};
  std::vector<Fact> facts;
  for (const Setting& setting : settings())
    if (std::find(kOfTheRank.begin(), kOfTheRank.end(), setting.key) == kOfTheRank.end())
      facts.push_back({join("setting ", setting.key), setting_text(config, setting)});
  return facts;
}

}  // namespace weft
