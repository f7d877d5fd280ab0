// The head of an HTTP request, checked before cpp-httplib sees it. Refuses lengths, codings and line ends that two readers of one
// connection could understand differently, and heads that make cpp-httplib recurse or answer early. Drops headers that the server does not
// use, such as Range and Accept-Encoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::serve {

struct RequestHead {
  std::string text;                // for cpp-httplib: the request line, the headers that are used, and the empty line
  std::optional<uint64_t> length;  // of the body, in bytes
  bool chunked = false;            // the body has chunks instead

  bool has_body() const { return chunked || length.value_or(0) > 0; }
};

inline constexpr size_t kMostTarget = 1024;  // characters of a path: cpp-httplib matches it by a recursive regular expression

// `head`: the lines of a request up to the empty one, each with its end. Throws an ApiError with the status to answer.
RequestHead parse_head(std::string_view head);

}  // namespace weft::serve
