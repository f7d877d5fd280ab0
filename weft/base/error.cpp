#include "weft/base/error.h"

namespace weft {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid argument";
    case ErrorCode::out_of_memory: return "out of memory";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::device_fault: return "device fault";
    case ErrorCode::bad_file: return "bad file";
  }
  return "error";
}

}  // namespace weft
