// An error inside a template before its place is known: the interpreter adds template and line and throws it as weft::Error.
#pragma once

#include <exception>
#include <string>

#include "weft/base/check.h"

namespace weft::chat {

struct Trouble : std::exception {
  Trouble(ErrorCode code, std::string message, bool raised = false) : code(code), message(std::move(message)), raised(raised) {}
  const char* what() const noexcept override { return message.c_str(); }

  ErrorCode code;
  std::string message;
  bool raised;  // by raise_exception(): the template refuses the conversation
};

// A wrong operation of the template on the values it got.
template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void wrong(const Parts&... parts) {
  throw Trouble(ErrorCode::invalid_argument, join(parts...));
}

// A construct of Jinja or Python that this library does not have.
template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void not_supported(const Parts&... parts) {
  throw Trouble(ErrorCode::unsupported, join(parts...));
}

// A limit that the template exceeds.
template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void exceeded(const Parts&... parts) {
  throw Trouble(ErrorCode::bad_file, join(parts...));
}

}  // namespace weft::chat
