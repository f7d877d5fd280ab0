// Checksums of bytes on disk.
//
//   crc32c    Castagnoli's polynomial, reflected (0x82F63B78): what TensorBoard's record files ask for, and what says that
//             a checkpoint is whole
//   xxh64     a fast 64-bit hash (Collet, xxHash specification 0.1.1): tells contents apart
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace weft {

// Told on the way through a large file how many bytes are done, and at the end.
using BytesDone = std::function<void(int64_t)>;

// Of the bytes after those that gave `before`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before, const BytesDone& tell);

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0, const BytesDone& tell = {});

}  // namespace weft
