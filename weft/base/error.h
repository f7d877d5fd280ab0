// The one exception of the library. A message names the op or file, the value and what was expected.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

enum class ErrorCode {
  invalid_argument,  // a shape, dtype, device or value that a caller got wrong
  out_of_memory,     // the device has no room for what was asked
  unsupported,       // a meaningful request that this device or build cannot serve
  device_fault,      // a kernel found something wrong in its data (an id out of range)
  bad_file,          // bytes on disk that are not what they claim to be
};

std::string_view name(ErrorCode code);

class Error : public std::runtime_error {
 public:
  // `where` is the op, file or function that complains; it is the first word of what().
  Error(ErrorCode code, std::string_view where, const std::string& message)
      : std::runtime_error(std::string(where) + ": " + message), code_(code), where_(where) {}

  ErrorCode code() const { return code_; }
  const std::string& where() const { return where_; }

 private:
  ErrorCode code_;
  std::string where_;
};

}  // namespace weft
