// Checksums of bytes on disk.
//
//   crc32c    Castagnoli's polynomial, reflected (0x82F63B78): required by TensorBoard's record files, and used to verify
//             checkpoints
//   xxh64     a fast 64-bit hash (Collet, xxHash specification 0.1.1): distinguishes contents
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace weft {

// Called during a large file, and at its end, with the number of bytes done.
using BytesDone = std::function<void(int64_t)>;

// Checksum of `bytes` appended to bytes whose checksum is `before`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before, const BytesDone& progress);

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0, const BytesDone& progress = {});

}  // namespace weft
