#include "weft/io/checksum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Eight bytes a step: table[k][b] is the remainder of byte b followed by k zero bytes (Kounavis and Berry, 2005).
using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables make_tables() {
  Tables t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t r = b;
    for (int bit = 0; bit < 8; ++bit) r = r & 1 ? (r >> 1) ^ 0x82F63B78u : r >> 1;
    t[0][b] = r;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xff];
  return t;
}
constexpr Tables kTables = make_tables();

constexpr size_t kPiece = size_t(64) << 20;  // bytes between two progress reports: at most a tenth of a second

constexpr uint64_t kP1 = 0x9E3779B185EBCA87u, kP2 = 0xC2B2AE3D27D4EB4Fu, kP3 = 0x165667B19E3779F9u, kP4 = 0x85EBCA77C2B2AE63u,
                   kP5 = 0x27D4EB2F165667C5u;

constexpr uint64_t round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kP2, 31) * kP1; }

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    const uint64_t x = read<uint64_t>(at) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(x >> (8 * i)) & 0xff];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ uint32_t(*at)) & 0xff];
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before, const BytesDone& progress) {
  for (size_t done = 0; done < bytes.size(); done += kPiece) {
    progress(int64_t(done));
    before = crc32c(bytes.subspan(done, std::min(kPiece, bytes.size() - done)), before);
  }
  progress(int64_t(bytes.size()));
  return before;
}

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed, const BytesDone& progress) {
  const std::byte *at = bytes.data(), *end = at + bytes.size();
  uint64_t hash = seed + kP5;
  if (bytes.size() >= 32) {
    uint64_t lane[4] = {seed + kP1 + kP2, seed + kP2, seed, seed - kP1};
    while (end - at >= 32) {
      if (progress) progress(at - bytes.data());
      for (const std::byte* next = at + std::min(kPiece, size_t(end - at) / 32 * 32); at < next; at += 32)
        for (size_t i = 0; i < 4; ++i) lane[i] = round(lane[i], read<uint64_t>(at + 8 * i));
    }
    hash = std::rotl(lane[0], 1) + std::rotl(lane[1], 7) + std::rotl(lane[2], 12) + std::rotl(lane[3], 18);
    for (uint64_t value : lane) hash = (hash ^ round(0, value)) * kP1 + kP4;
  }
  hash += bytes.size();
  for (; end - at >= 8; at += 8) hash = std::rotl(hash ^ round(0, read<uint64_t>(at)), 27) * kP1 + kP4;
  for (; end - at >= 4; at += 4) hash = std::rotl(hash ^ (uint64_t(read<uint32_t>(at)) * kP1), 23) * kP2 + kP3;
  for (; at < end; ++at) hash = std::rotl(hash ^ (uint64_t(*at) * kP5), 11) * kP1;
  if (progress) progress(int64_t(bytes.size()));
  hash = (hash ^ (hash >> 33)) * kP2;
  hash = (hash ^ (hash >> 29)) * kP3;
  return hash ^ (hash >> 32);
}

}  // namespace weft
