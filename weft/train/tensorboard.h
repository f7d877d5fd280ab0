// TensorBoard's event files: records of length, masked CRC-32C, protobuf message, masked CRC-32C. The few message fields
// that are needed are encoded by hand (tensorflow/core/util/event.proto and framework/summary.proto name them).
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace weft {

class TensorBoard {
 public:
  // Opens a new file in `folder`: TensorBoard expects one per start of a run and reads them in the order of their names. Tells it to
  // ignore events after step `done` in earlier files.
  explicit TensorBoard(const std::string& folder, int64_t done = 0);

  // An event is in the file when the call returns: a process that is killed afterwards does not lose it.
  void scalar(std::string_view tag, int64_t step, double value);
  void text(std::string_view tag, int64_t step, std::string_view value);

  const std::string& path() const { return path_; }

 private:
  void event(int64_t step, std::string_view field);
  void record(std::string_view message);

  std::string path_;
  std::ofstream file_;
};

}  // namespace weft
