// Whether this build has AddressSanitizer or ThreadSanitizer. Their shadow memory, and ASan's quarantine of freed blocks, count in the
// process's resident set: a test of the resident set then says nothing about Weft.
#pragma once

namespace weft {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace weft
