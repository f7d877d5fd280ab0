// The term of one element in the digest of a row, for the host, CUDA and MSL:
//
//   digest = sum over j of mix(bits(x_j) ^ j 0x9e3779b9), modulo 2^32
//
// mix scrambles 32 bits one to one. Sums of integers have no order.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

#ifdef __CUDACC__
#define WEFT_HOST_AND_DEVICE __host__ __device__
#else
#define WEFT_HOST_AND_DEVICE
#endif

namespace weft {

WEFT_HOST_AND_DEVICE inline uint32_t digest_term(uint32_t bits, uint32_t j) {
  uint32_t h = bits ^ (j * 0x9e3779b9u);
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  return h ^ (h >> 16);
}

}  // namespace weft

#undef WEFT_HOST_AND_DEVICE
