#include "weft/io/gguf_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weft/base/parallel.h"

namespace weft {
namespace {

constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4, true, "f32"},
    {1, "F16", 1, 2, true, "f16"},
    {30, "BF16", 1, 2, true, "bf16"},
    {8, "Q8_0", 32, 34, true, "q8_0"},
    {2, "Q4_0", 32, 18, true, nullptr},
    {3, "Q4_1", 32, 20, true, nullptr},
    {6, "Q5_0", 32, 22, true, nullptr},
    {7, "Q5_1", 32, 24, true, nullptr},
    {12, "Q4_K", 256, 144, true, nullptr},
    {13, "Q5_K", 256, 176, true, nullptr},
    {14, "Q6_K", 256, 210, true, nullptr},
    {39, "MXFP4", 32, 17, true, nullptr},
    // Types that weft inspect lists and that cannot be loaded.
    {9, "Q8_1", 32, 36, false, nullptr},
    {10, "Q2_K", 256, 84, false, nullptr},
    {11, "Q3_K", 256, 110, false, nullptr},
    {15, "Q8_K", 256, 292, false, nullptr},
    {16, "IQ2_XXS", 256, 66, false, nullptr},
    {17, "IQ2_XS", 256, 74, false, nullptr},
    {18, "IQ3_XXS", 256, 98, false, nullptr},
    {19, "IQ1_S", 256, 50, false, nullptr},
    {20, "IQ4_NL", 32, 18, false, nullptr},
    {21, "IQ3_S", 256, 110, false, nullptr},
    {22, "IQ2_S", 256, 82, false, nullptr},
    {23, "IQ4_XS", 256, 136, false, nullptr},
    {24, "I8", 1, 1, false, nullptr},
    {25, "I16", 1, 2, false, nullptr},
    {26, "I32", 1, 4, false, nullptr},
    {27, "I64", 1, 8, false, nullptr},
    {28, "F64", 1, 8, false, nullptr},
    {29, "IQ1_M", 256, 56, false, nullptr},
    {34, "TQ1_0", 256, 54, false, nullptr},
    {35, "TQ2_0", 256, 66, false, nullptr},
};

uint32_t byte_at(const std::byte* at, int64_t i) { return std::to_integer<uint32_t>(at[i]); }

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float half_at(const std::byte* at) { return float(load<f16>(at)); }

// Q4_0 to Q5_1: the low four bits of elements i and i + 16 share a byte, the fifth bits are one word. `minimum`: the block stores one;
// else its integers are centred on zero.
template <bool fifth_bit, bool minimum>
void small_block(const std::byte* block, float* out) {
  constexpr int64_t kHalf = 16;
  const float d = half_at(block), m = minimum ? half_at(block + 2) : 0;
  const std::byte* at = block + (minimum ? 4 : 2);
  const uint32_t high = fifth_bit ? load<uint32_t>(at) : 0;
  if (fifth_bit) at += sizeof high;
  constexpr int kCentre = minimum ? 0 : fifth_bit ? 16 : 8;
  for (int64_t i = 0; i < kHalf; ++i) {
    const uint32_t low = (byte_at(at, i) & 15) | ((high >> i) & 1) << 4, upper = byte_at(at, i) >> 4 | ((high >> (i + kHalf)) & 1) << 4;
    out[i] = d * float(int(low) - kCentre) + m;
    out[i + kHalf] = d * float(int(upper) - kCentre) + m;
  }
}

void q8_0_block(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int64_t i = 0; i < 32; ++i) out[i] = float(int8_t(byte_at(block, 2 + i))) * d;
}

// The six-bit scale and minimum of a group of 32 elements. Twelve bytes pack eight of each: groups 0 to 3 are the low six bits of a byte;
// the upper two bits of these bytes belong to groups 4 to 7.
std::pair<float, float> scale_and_minimum(const std::byte* packed, int64_t group) {
  const auto at = [&](int64_t i) { return byte_at(packed, i); };
  if (group < 4) return {float(at(group) & 63), float(at(group + 4) & 63)};
  return {float((at(group + 4) & 15) | (at(group - 4) >> 6) << 4), float(at(group + 4) >> 4 | (at(group) >> 6) << 4)};
}

// Q4_K and Q5_K: elements 64 g + i and 64 g + 32 + i share a byte; byte i of `high` has the fifth bits of element i of all groups.
template <bool fifth_bit>
void middle_block(const std::byte* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  const std::byte *scales = block + 4, *high = block + 16, *low = high + (fifth_bit ? 32 : 0);
  for (int64_t group = 0; group < 8; ++group) {
    const auto [scale, minimum] = scale_and_minimum(scales, group);
    const float step = d * scale, offset = m * minimum;
    for (int64_t i = 0; i < 32; ++i) {
      const uint32_t pair = byte_at(low, group / 2 * 32 + i), four = group % 2 ? pair >> 4 : pair & 15;
      const uint32_t fifth = fifth_bit ? (byte_at(high, i) >> group & 1) << 4 : 0;
      out[group * 32 + i] = step * float(four | fifth) - offset;
    }
  }
}

// Two halves of 128 elements, each with four runs of 32: the low four bits of runs r and r + 2 share a byte, and the upper two bits of all
// four runs share a byte.
void q6_k_block(const std::byte* block, float* out) {
  const std::byte *low = block, *high = block + 128, *scales = block + 192;
  const float d = half_at(block + 208);
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t run = 0; run < 4; ++run)
      for (int64_t i = 0; i < 32; ++i) {
        const uint32_t pair = byte_at(low, half * 64 + run % 2 * 32 + i), four = run < 2 ? pair & 15 : pair >> 4;
        const uint32_t two = byte_at(high, half * 32 + i) >> (2 * run) & 3;
        const auto scale = float(int8_t(byte_at(scales, half * 8 + run * 2 + i / 16)));
        out[half * 128 + run * 32 + i] = d * scale * float(int(four | two << 4) - 32);
      }
}

// Elements i and i + 16 share a byte. Computes twice the value times half the power of two, because the largest power overflows a float.
void mxfp4_block(const std::byte* block, float* out) {
  constexpr float kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
  constexpr int kBias = 127;
  const float power = std::ldexp(1.0f, int(byte_at(block, 0)) - kBias - 1);
  for (int64_t i = 0; i < 16; ++i) {
    out[i] = kTwice[byte_at(block, 1 + i) & 15] * power;
    out[i + 16] = kTwice[byte_at(block, 1 + i) >> 4] * power;
  }
}

using BlockReader = void (*)(const std::byte*, float*);

BlockReader reader_of(const GgufType& type) {
  switch (type.id) {
    case 0: return [](const std::byte* block, float* out) { *out = load<float>(block); };
    case 1: return [](const std::byte* block, float* out) { *out = half_at(block); };
    case 30: return [](const std::byte* block, float* out) { *out = float(load<bf16>(block)); };
    case 2: return small_block<false, false>;
    case 3: return small_block<false, true>;
    case 6: return small_block<true, false>;
    case 7: return small_block<true, true>;
    case 8: return q8_0_block;
    case 12: return middle_block<false>;
    case 13: return middle_block<true>;
    case 14: return q6_k_block;
    case 39: return mxfp4_block;
    default: fail(ErrorCode::unsupported, "gguf", "values of type ", type.name, " cannot be read");
  }
}

void write_q8_0(std::span<const float> values, std::byte* out) {
  float most = 0;
  for (float value : values) most = std::max(most, std::fabs(value));
  const float d = most / 127, inverse = d == 0 ? 0 : 1 / d;
  const f16 stored(d);
  std::memcpy(out, &stored, sizeof stored);
  for (size_t i = 0; i < values.size(); ++i) out[2 + i] = std::byte(uint8_t(int8_t(std::round(values[i] * inverse))));
}

}  // namespace

std::optional<DType> GgufType::dtype() const {
  switch (id) {
    case 0: return DType::f32;
    case 1: return DType::f16;
    case 30: return DType::bf16;
    default: return std::nullopt;
  }
}

const GgufType* gguf_type(uint32_t id) {
  for (const GgufType& type : kTypes)
    if (type.id == id) return &type;
  return nullptr;
}

const GgufType& gguf_type_to_write(std::string_view name) {
  for (const GgufType& type : kTypes)
    if (type.writes && name == type.writes) return type;
  fail(ErrorCode::invalid_argument, "export", "weights of a GGUF file are written as f32, f16, bf16 or q8_0, got '", name, "'");
}

std::string loadable_gguf_types() {
  std::string list;
  for (const GgufType& type : kTypes)
    if (type.loadable) list += join(list.empty() ? "" : ", ", type.name);
  return list;
}

void to_floats(const GgufType& type, std::span<const std::byte> blocks, std::span<float> values) {
  constexpr int64_t kTask = int64_t(1) << 16;  // elements, a multiple of every block
  check(int64_t(blocks.size()) == type.bytes_of(int64_t(values.size())) && int64_t(values.size()) % type.elements == 0, "to_floats",
        blocks.size(), " bytes of type ", type.name, " are not ", values.size(), " values");
  const BlockReader read = reader_of(type);
  const auto count = int64_t(values.size());
  parallel_for(ceil_div(count, kTask), available_threads(), [&](int64_t task) {
    for (int64_t at = task * kTask; at < std::min(count, (task + 1) * kTask); at += type.elements)
      read(blocks.data() + type.bytes_of(at), values.data() + at);
  });
}

std::vector<std::byte> from_floats(const GgufType& type, std::span<const float> values) {
  check(type.writes && int64_t(values.size()) % type.elements == 0, "from_floats", values.size(), " values cannot be written as ",
        type.name);
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes_of(int64_t(values.size()))));
  const auto each = [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      const T stored(values[i]);
      std::memcpy(bytes.data() + i * sizeof stored, &stored, sizeof stored);
    }
  };
  if (const auto dtype = type.dtype()) {
    dispatch<float, bf16, f16>(*dtype, each);
  } else {
    for (size_t at = 0; at < values.size(); at += size_t(type.elements))
      write_q8_0(values.subspan(at, size_t(type.elements)), bytes.data() + type.bytes_of(int64_t(at)));
  }
  return bytes;
}

}  // namespace weft
