// Limits of a template, which is untrusted: each one is an error that names the limit. The largest of 173 real templates has 19 KB;
// the costliest takes 18 000 steps for 41 messages and three tools.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::chat {

struct TemplateLimits {
  size_t template_bytes = size_t(512) << 10;
  size_t output_bytes = size_t(64) << 20;
  size_t memory_bytes = size_t(512) << 20;  // of the values alive at one time
  int64_t steps = 30'000'000;               // nodes evaluated, elements visited, and every 64 bytes of text that an operation touches
  int nesting = 100;                        // brackets and statements inside each other, in the source
  int tree = 400;                           // height of one expression: a + b + c ... leans to the left, without brackets
  int depth = 1200;  // nodes being evaluated inside each other; a macro that calls itself needs 4 to 13 per call. At most 0.4 MB of stack
};

inline constexpr int kValueDepth = 200;                  // lists in lists; bounds every recursion over a value
inline constexpr size_t kValueWeight = size_t(1) << 24;  // values inside one value: [x, x] of [x, x] of ... doubles them at no cost
inline constexpr int64_t kMostRange = 100000;            // elements of range(), as in Jinja's sandbox

}  // namespace weft::chat
