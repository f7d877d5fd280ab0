// Keys of a segment of attention (online_softmax.metal.h). Host and MSL.
#pragma once

namespace weft {

// Part of attention's definition: another number gives other bits. Joining costs the forward pass 1 % of its multiply-adds at 256 keys, 2 %
// at 128. Decoding one sequence has a threadgroup for each segment and key head, 128 of them for 4096 keys of 8 heads; a segment's partial
// sums add 3 % to the bytes of its bf16 keys and values (heads of 64, four to a key head).
enum : int { kKeySegment = 256 };

}  // namespace weft
