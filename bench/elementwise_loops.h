// Hand-written loops with the vector functions of weft/tile/cpu: the reference for the speed of the expressions of the same name.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::bench {

// y = f(a, b), n elements; a function of one argument ignores b.
using ElementwiseLoop = void (*)(const float* a, const float* b, float* y, int64_t n);

// The loop for elementwise.<variant>; nullptr if there is none.
ElementwiseLoop elementwise_loop(std::string_view variant);

}  // namespace weft::bench
