// Tiles of packed documents, found from cumulative lengths 0 = documents[0] <= ... <= documents[n] = T (checked by documents.metal).
//
// Slot(d) = floor(documents[d] / tile) + d. The ceil(length / tile) tiles of document d take the slots from Slot(d) on and end before
// Slot(d + 1). So floor(T / tile) + n threadgroups suffice for any lengths, which the host does not know; those past a document's end
// have nothing to do.
#pragma once

namespace weft {

// Tokens [first, first + tokens) are a document, or a whole sequence; a tile starts at token `at` of it.
struct DocumentTile {
  int first, tokens, at;
};

inline int slot_of(device const int* documents, int d, int tile) { return documents[d] / tile + d; }

// The tile in a slot; it does not exist if at >= tokens.
inline DocumentTile document_tile(device const int* documents, int n, int tile, int slot) {
  int d = 0;
  for (int end = n; end - d > 1;) {  // Slot(d) <= slot < Slot(end)
    const int middle = (d + end) / 2;
    if (slot_of(documents, middle, tile) <= slot)
      d = middle;
    else
      end = middle;
  }
  const int first = documents[d];
  return DocumentTile{first, documents[d + 1] - first, (slot - slot_of(documents, d, tile)) * tile};
}

}  // namespace weft
