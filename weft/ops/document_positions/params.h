// The numbers of document_positions' Metal kernel: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct DocumentPositionsParams {
  int32_t N, T;  // entries of documents, tokens
};
static_assert(sizeof(DocumentPositionsParams) == 8, "host and MSL agree");

}  // namespace weft
