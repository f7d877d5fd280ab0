// Most chunks of a row that a thread holds. Host and MSL.
#pragma once

namespace weft {

enum : int {
  kMostChunks = 4,  // of what stays while rows pass by, and where several rows are held
  kLongRow = 9,     // where it is one row alone: 1024 threads hold 36864 f32, 73728 bf16
};

}  // namespace weft
