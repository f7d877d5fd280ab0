// The fuzz targets. libFuzzer calls them (entry.cpp), and tests/unit/fuzz_corpus_test.cpp with every file of their corpora.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "weft/base/error.h"

namespace weft::fuzz {

// A reader neither read nor rejected the bytes. Not caught under libFuzzer, which keeps the input.
struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool ok, const std::string& what) {
  if (!ok) throw Broken(what);
}

// A file may be rejected as damaged or unsupported, and for no other reason.
inline void require_file_error(const Error& error) {
  require(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported, error.what());
}

void safetensors(std::string_view bytes);
void gguf(std::string_view bytes);
void tokenizer(std::string_view bytes);
void config(std::string_view bytes);
void chat_template(std::string_view bytes);
void serve_request(std::string_view bytes);
void serve_http(std::string_view bytes);  // in builds with the server

}  // namespace weft::fuzz
