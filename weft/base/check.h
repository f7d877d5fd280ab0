// check() reports mistakes of a caller or a file. (assert() is for our own bugs.)
//
//   check(w.rank() == 1, "rms_norm", "weight must have rank 1, got shape ", w.shape());
//
// The message is built only when the check fails, so a passing check costs one branch.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void fail(ErrorCode code, std::string_view where, const Parts&... parts) {
  throw Error(code, where, join(parts...));
}

template <class... Parts>
void check(bool ok, std::string_view where, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorCode::invalid_argument, where, parts...);
}

}  // namespace weft
