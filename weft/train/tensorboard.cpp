#include "weft/train/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/train/run_facts.h"

namespace weft {
namespace {

// Protobuf's wire format: a key (field number and type) before every value.
enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void add_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(char(value | 0x80));
  out.push_back(char(value));
}
void add_key(std::string& out, int field, Wire wire) { add_varint(out, uint64_t(field) << 3 | uint64_t(wire)); }
template <class T>
void add_fixed(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string varint(int field, int64_t value) {
  std::string out;
  add_key(out, field, Wire::varint);
  add_varint(out, uint64_t(value));
  return out;
}
std::string fixed64(int field, double value) {
  std::string out;
  add_key(out, field, Wire::fixed64);
  add_fixed(out, value);
  return out;
}
std::string fixed32(int field, float value) {
  std::string out;
  add_key(out, field, Wire::fixed32);
  add_fixed(out, value);
  return out;
}
std::string bytes(int field, std::string_view value) {
  std::string out;
  add_key(out, field, Wire::bytes);
  add_varint(out, value.size());
  return out.append(value);
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

uint32_t masked(std::string_view data) { return std::rotr(crc32c(std::as_bytes(std::span(data))), 15) + 0xa282ead8u; }

constexpr std::string_view kPrefix = "events.out.tfevents.";

// The largest second in the names of the event files in `folder`; 0: there are none.
int64_t newest_second(const std::string& folder) {
  int64_t newest = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int64_t second = 0;
    if (name.starts_with(kPrefix)) std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), second);
    newest = std::max(newest, second);
  }
  return newest;
}

}  // namespace

TensorBoard::TensorBoard(const std::string& folder, int64_t done) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::bad_file, folder, "cannot be created: ", error.message());
  const int64_t before = newest_second(folder);
  path_ = join(folder, "/", kPrefix, std::max(int64_t(now()), before + 1), ".", host_name(), ".", ::getpid());
  file_.open(path_, std::ios::binary | std::ios::trunc);
  check(file_.good(), path_, "cannot be created: ", std::strerror(errno));
  record(fixed64(1, now()) + bytes(3, "brain.Event:2"));
  constexpr int kStart = 1;  // Event {wall_time 1, step 2, session_log 7 {status 1}}
  if (done > 0 || before > 0) record(fixed64(1, now()) + varint(2, done + 1) + bytes(7, varint(1, kStart)));
}

void TensorBoard::record(std::string_view message) {
  std::string out;
  add_fixed(out, uint64_t(message.size()));
  add_fixed(out, masked(std::string_view(out)));
  out.append(message);
  add_fixed(out, masked(message));
  file_.write(out.data(), std::streamsize(out.size()));
  file_.flush();
  check(file_.good(), path_, "cannot be written: ", std::strerror(errno));
}

// Event {wall_time 1, step 2, summary 5 {value 1 {...}}}
void TensorBoard::event(int64_t step, std::string_view value) { record(fixed64(1, now()) + varint(2, step) + bytes(5, bytes(1, value))); }

// Value {tag 1, simple_value 2}
void TensorBoard::scalar(std::string_view tag, int64_t step, double value) { event(step, bytes(1, tag) + fixed32(2, float(value))); }

// Value {tag 1, tensor 8 {dtype 1 = string, shape 2 {dim 2 {size 1}}, string_val 8}, metadata 9 {plugin_data 1 {plugin_name 1}}}
void TensorBoard::text(std::string_view tag, int64_t step, std::string_view value) {
  constexpr int kString = 7;
  const std::string tensor = varint(1, kString) + bytes(2, bytes(2, varint(1, 1))) + bytes(8, value);
  event(step, bytes(1, tag) + bytes(8, tensor) + bytes(9, bytes(1, bytes(1, "text"))));
}

}  // namespace weft
