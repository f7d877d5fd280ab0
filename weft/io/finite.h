// Checks values before they are written: weights that are NaN or infinite never replace those on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weft/base/dtype.h"

namespace weft {

enum class Floats { any, finite };

// Throws device_fault with the file, the tensor, the value and its index; `bytes` begin at element `first`. `when` is appended
// ("after step 12").
void check_finite(std::string_view file, std::string_view tensor, DType dtype, std::span<const std::byte> bytes, int64_t first = 0,
                  std::string_view when = {});

}  // namespace weft
