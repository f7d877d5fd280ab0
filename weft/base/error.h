// The one exception of the library. A message names the op or file, the value and what was expected.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

enum class ErrorCode {
  invalid_argument,  // wrong shape, dtype, device or value from a caller
  out_of_memory,     // the device has too little memory for the request
  unsupported,       // a valid request that this device or build does not support
  device_fault,      // a kernel found invalid data (an id out of range)
  bad_file,          // a file or folder is missing, damaged or of another format
};

std::string_view name(ErrorCode code);

class Error : public std::runtime_error {
 public:
  // `where` is the op, file or function that reports the error; what() starts with it.
  Error(ErrorCode code, std::string_view where, const std::string& message)
      : std::runtime_error(std::string(where) + ": " + message), code_(code), where_(where) {}

  ErrorCode code() const { return code_; }
  const std::string& where() const { return where_; }

 private:
  ErrorCode code_;
  std::string where_;
};

}  // namespace weft
