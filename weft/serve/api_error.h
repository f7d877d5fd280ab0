// An error for the client: the HTTP status and OpenAI's error object.
#pragma once

#include <exception>
#include <string>

#include "weft/base/check.h"

namespace weft::serve {

struct ApiError : std::exception {
  int status = 400;
  std::string message, type = "invalid_request_error", param, code;  // param, code: null if empty

  const char* what() const noexcept override { return message.c_str(); }
};

inline ApiError api_error(int status, std::string message, std::string type, std::string code = "") {
  ApiError error;
  error.status = status;
  error.message = std::move(message);
  error.type = std::move(type);
  error.code = std::move(code);
  return error;
}

// Throws an ApiError of status 400 about a parameter of the request.
template <class... Parts>
[[noreturn]] void refuse(std::string param, const Parts&... parts) {
  ApiError error;
  error.message = join(parts...);
  error.param = std::move(param);
  throw error;
}

inline ApiError stopping() { return api_error(503, "the server is stopping", "server_error", "stopping"); }

}  // namespace weft::serve
