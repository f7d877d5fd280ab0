// The element types of GGUF tensors. A row is stored in blocks of equally many elements; a quantised block has its own scale:
//
//   Q8_0  x = d q                       32 elements: d f16, q int8
//   Q4_K  x = d s q - m t q in 0..15    256 elements: d, m f16; 6-bit s and t for each 32
//   Q6_K  x = d s q, q in -32..31       256 elements: d f16; 8-bit s for each 16
//   MXFP4 x = d q                       32 elements: d a power of two in 8 bits; q of 4 bits: sign, two of exponent, one of fraction
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
  int64_t elements;    // of a block
  int64_t bytes;       // of a block
  bool loadable;       // to_floats() reads it
  const char* writes;  // the name by which from_floats() writes it: "q8_0"; nullptr: it does not

  int64_t bytes_of(int64_t count) const { return count / elements * bytes; }
  std::optional<DType> dtype() const;  // of a type that is not quantised and that tensors have: f32, f16, bf16
};

// nullptr: no such type.
const GgufType* gguf_type(uint32_t id);
// The type that weights are written as: f32, f16, bf16 or q8_0. Throws invalid_argument for any other name.
const GgufType& gguf_type_to_write(std::string_view name);
// "F32, F16, ...": the types that to_floats() reads.
std::string loadable_gguf_types();

// The values of whole blocks; `values` has as many elements as they hold. In float32 as ggml computes them, in parallel.
void to_floats(const GgufType& type, std::span<const std::byte> blocks, std::span<float> values);

// Values, whole blocks of them, as blocks; rounded to nearest. Bits are those of ggml.
std::vector<std::byte> from_floats(const GgufType& type, std::span<const float> values);

}  // namespace weft
