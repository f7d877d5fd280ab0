// Checks the head of an HTTP request before cpp-httplib parses it. Refuses lengths, encodings and line ends that a proxy and this server
// could interpret differently (request smuggling), and heads that make cpp-httplib recurse or answer early. Drops headers that the server
// does not use, such as Range and Accept-Encoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::serve {

struct RequestHead {
  std::string text;                // the head for cpp-httplib: the request line, the used headers, and the empty line
  std::optional<uint64_t> length;  // bytes of the body
  bool chunked = false;            // the body is chunked and has no length
  bool version_1_0 = false;        // HTTP/1.0, which has no chunks

  bool has_body() const { return chunked || length.value_or(0) > 0; }
};

inline constexpr size_t kMostTarget = 1024;  // characters of a path: cpp-httplib matches it with a recursive regular expression

// `head`: the lines of a request up to the empty one, with their line ends. Throws an ApiError with the status of the answer.
RequestHead parse_head(std::string_view head);

}  // namespace weft::serve
