#include "weft/io/finite.h"

#include <cmath>
#include <cstring>

#include "weft/base/check.h"

namespace weft {
namespace {

// The exponent bits that are all set in NaN and infinity only.
template <class Word, Word kExponent>
int64_t first_bad(std::span<const std::byte> bytes) {
  const int64_t n = int64_t(bytes.size() / sizeof(Word));
  const auto bad = [&](int64_t i) {
    Word word;
    std::memcpy(&word, bytes.data() + i * int64_t(sizeof word), sizeof word);
    return (word & kExponent) == kExponent;
  };
  constexpr int64_t kChunk = 1024;  // elements tested per branch: the inner loop is branch-free and vectorises
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t end = std::min(n, i + kChunk);
    bool any = false;
    for (int64_t j = i; j < end; ++j) any |= bad(j);
    for (int64_t j = i; any; ++j)
      if (bad(j)) return j;
  }
  return -1;
}

int64_t first_bad(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f32: return first_bad<uint32_t, 0x7f800000>(bytes);
    case DType::bf16: return first_bad<uint16_t, 0x7f80>(bytes);
    case DType::f16: return first_bad<uint16_t, 0x7c00>(bytes);
    default: return -1;
  }
}

}  // namespace

void check_finite(std::string_view file, std::string_view tensor, DType dtype, std::span<const std::byte> bytes, int64_t first,
                  std::string_view when) {
  const int64_t bad = first_bad(dtype, bytes);
  if (bad < 0) return;
  float value = 0;
  dispatch<float, bf16, f16>(dtype, [&]<class T>() {
    T found;
    std::memcpy(&found, bytes.data() + bad * int64_t(sizeof found), sizeof found);
    value = float(found);
  });
  fail(ErrorCode::device_fault, file, "is not written: ", tensor, " is ", std::isnan(value) ? NAN : value, " at element ", first + bad,
       when.empty() ? "" : " ", when);
}

}  // namespace weft
