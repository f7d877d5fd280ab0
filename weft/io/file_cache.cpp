#include "weft/io/file_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "weft/base/check.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMagic = 0x3165686361637466;      // "ftcache1": a footer of this layout
constexpr auto kLeftBehind = std::chrono::hours(1);  // a temporary file this old was left by a killed process

struct Footer {
  uint64_t magic = kMagic, value_bytes = 0, key_bytes = 0, checksum = 0;  // of value and key
};

uint64_t checksum(std::string_view bytes) { return xxh64(std::as_bytes(std::span(bytes))); }

// Serialises value, key and footer.
std::string packed(std::string_view key, std::string_view value) {
  std::string all;
  all.reserve(value.size() + key.size() + sizeof(Footer));
  all.append(value).append(key);
  const Footer footer{.value_bytes = value.size(), .key_bytes = key.size(), .checksum = checksum(all)};
  all.append(reinterpret_cast<const char*>(&footer), sizeof footer);
  return all;
}

// Returns the value of a file if the file is intact and has this key.
std::optional<std::string> unpacked(std::string all, std::string_view key) {
  Footer footer;
  if (all.size() < sizeof footer) return {};
  std::memcpy(&footer, all.data() + all.size() - sizeof footer, sizeof footer);
  all.resize(all.size() - sizeof footer);
  if (footer.magic != kMagic || footer.key_bytes != key.size() || footer.value_bytes != all.size() - key.size()) return {};
  if (!all.ends_with(key) || checksum(all) != footer.checksum) return {};
  all.resize(all.size() - key.size());
  return all;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(size_t(n));
  }
  return true;
}

}  // namespace

FileCache::FileCache(fs::path folder, std::string suffix, int64_t most_bytes)
    : folder_(std::move(folder)), suffix_(std::move(suffix)), most_bytes_(most_bytes) {}

fs::path FileCache::path_of(std::string_view key) const {
  char name[40];
  const auto bytes = std::as_bytes(std::span(key));
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(xxh64(bytes, 0)),
                static_cast<unsigned long long>(xxh64(bytes, 1)));
  return folder_ / (name + suffix_);
}

std::optional<FileCache::Found> FileCache::find(std::string_view key) {
  const fs::path path = path_of(key);
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  std::optional<std::string> value = unpacked(std::string(std::istreambuf_iterator<char>(in), {}), key);
  std::error_code ignored;
  if (!value) {
    fs::remove(path, ignored);
    return {};
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return Found{path, std::move(*value)};
}

std::optional<fs::path> FileCache::keep(std::string_view key, std::string_view value) {
  const fs::path path = path_of(key);
  std::string temporary = path.string() + ".XXXXXX";  // unique among processes, also across containers
  const int file = ::mkstemp(temporary.data());
  if (file < 0) return {};
  const std::string all = packed(key, value);
  const bool written = write_all(file, all), closed = ::close(file) == 0;
  std::error_code error;
  if (written && closed) fs::rename(temporary, path, error);
  if (!written || !closed || error) {
    fs::remove(temporary, error);
    return {};
  }
  if (known_bytes_ >= 0) known_bytes_ += int64_t(all.size());
  if (known_bytes_ < 0 || known_bytes_ > most_bytes_) make_room(path);
  return path;
}

// Evicts down to three quarters of the limit, so that not every new file triggers an eviction.
void FileCache::make_room(const fs::path& but) {
  struct File {
    fs::path path;
    int64_t bytes;
    fs::file_time_type used;
  };
  std::vector<File> files;
  std::error_code error;
  known_bytes_ = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    std::error_code gone;
    const bool regular = entry.is_regular_file(gone);
    const File file{entry.path(), regular ? int64_t(entry.file_size(gone)) : 0, entry.last_write_time(gone)};
    if (!regular || gone) continue;
    const std::string name = entry.path().filename().string();
    if (name.find(suffix_) == std::string::npos) continue;  // not ours
    const bool unfinished = !name.ends_with(suffix_);
    if (unfinished && file.used + kLeftBehind < fs::file_time_type::clock::now() && fs::remove(file.path, gone)) continue;
    known_bytes_ += file.bytes;
    if (!unfinished && file.path != but) files.push_back(file);
  }
  if (known_bytes_ <= most_bytes_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (known_bytes_ <= most_bytes_ / 4 * 3) return;
    std::error_code gone;
    fs::remove(file.path, gone);
    known_bytes_ -= file.bytes;
  }
}

std::optional<fs::path> cache_folder(std::string_view name) {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  for (fs::path folder : {xdg && *xdg ? fs::path(xdg) : fs::path(), home && *home ? fs::path(home) / ".cache" : fs::path()}) {
    if (!folder.is_absolute()) continue;
    folder /= "weft";
    folder /= name;
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error && ::access(folder.c_str(), W_OK) == 0) return folder;
  }
  return {};
}

int64_t cache_limit(const char* variable, int64_t otherwise) {
  const char* set = std::getenv(variable);
  if (!set || !*set) return otherwise;
  const std::string_view text = set;
  int64_t mebibytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mebibytes);
  check(error == std::errc() && end == text.data() + text.size() && mebibytes > 0 && mebibytes < (int64_t(1) << 40), variable, "is '", text,
        "', expected a number of MiB");
  return mebibytes << 20;
}

}  // namespace weft
