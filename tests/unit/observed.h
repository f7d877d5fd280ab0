// Helpers of tests: the message of an error, the bytes of a file.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "weft/base/error.h"

namespace weft {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace weft
