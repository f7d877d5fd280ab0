// Exit codes of errors.
#pragma once

#include "cli/command.h"
#include "weft/base/error.h"

namespace weft::cli {

inline int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::unsupported: return kMissing;
    case ErrorCode::device_fault: return kFailed;  // the request is valid, its result is not
    default: return kUsage;
  }
}

}  // namespace weft::cli
