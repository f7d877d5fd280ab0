// A fault that a kernel found in its data, as one struct in host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {
namespace metal_fault {

enum Kind {
  none = 0,
  id_out_of_range = 1,
  target_out_of_range = 2,
  position_out_of_range = 3,
  start_out_of_range = 4,
  bad_step = 5,
  bad_documents = 6,
  token_position_out_of_range = 7,
  page_out_of_range = 8
};

// The first report is kept: the thread that changes `claimed` from 0 to 1 writes the rest.
struct Record {
#ifdef __METAL_VERSION__
  metal::atomic_int claimed;
  int kind;
  long value, at, limit;
#else
  int32_t claimed = 0;
  int32_t kind = none;
  int64_t value = 0, at = 0, limit = 0;
#endif
};
static_assert(sizeof(Record) == 32, "host and MSL agree");

}  // namespace metal_fault
}  // namespace weft
