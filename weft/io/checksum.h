// Checksums of bytes on disk.
//
//   crc32c    Castagnoli's polynomial, reflected (0x82F63B78): what TensorBoard's record files ask for, and what says that
//             a checkpoint is whole
//   xxh64     a fast 64-bit hash (Collet, xxHash specification 0.1.1): tells contents apart
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

// Of the bytes after those that gave `before`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0);

}  // namespace weft
