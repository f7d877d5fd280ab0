// The element types of GGUF tensors. A row is stored in blocks of a fixed number of elements; a quantised block has its own scales:
//
//   Q8_0  x = d q                       32 elements: d f16, q int8
//   Q4_K  x = d s q - m t, q in 0..15   256 elements: d, m f16; 6-bit s and t for each 32
//   Q6_K  x = d s q, q in -32..31       256 elements: d f16; 8-bit s for each 16
//   MXFP4 x = d q                       32 elements: d an 8-bit power of two; q a 4-bit float (1 sign, 2 exponent, 1 fraction bit)
//
// Q4_0, Q4_1, Q5_0, Q5_1 and Q5_K are the same with other widths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"

namespace weft {

struct GgufType {
  uint32_t id;         // in the file
  const char* name;    // "Q8_0"
  int64_t elements;    // per block
  int64_t bytes;       // per block
  bool loadable;       // to_floats() supports it
  const char* writes;  // its name for gguf_type_to_write(), such as "q8_0"; nullptr: from_floats() does not support it

  int64_t bytes_of(int64_t count) const { return count / elements * bytes; }
  std::optional<DType> dtype() const;  // the equal dtype, for F32, F16 and BF16
};

// The type with this id, or nullptr.
const GgufType* gguf_type(uint32_t id);
// The type that weights are written as: f32, f16, bf16 or q8_0. Throws invalid_argument for any other name.
const GgufType& gguf_type_to_write(std::string_view name);
// "F32, F16, ...": the types that to_floats() reads.
std::string loadable_gguf_types();

// Dequantises whole blocks into as many values as they hold, in float32 with ggml's results; runs in parallel.
void to_floats(const GgufType& type, std::span<const std::byte> blocks, std::span<float> values);

// Converts values, a multiple of the block's size, rounding to nearest. The bytes equal ggml's.
std::vector<std::byte> from_floats(const GgufType& type, std::span<const float> values);

}  // namespace weft
