// Documents to ids, in order, by several threads. The ids do not depend on their number. Not installed.
#pragma once

#include <functional>
#include <span>

#include "weft/train/documents.h"
#include "weft/train/vocabulary.h"

namespace weft {

// Calls `add` with the ids of all documents, one run of them after another, as append_document would give them. At
// most a few megabytes of text and their ids are in memory at once; a longer document is encoded in parts where the
// vocabulary can cut it, else in one.
void tokenise(const Documents& documents, const Vocabulary& vocabulary, int threads,
              const std::function<void(std::span<const int32_t>)>& add);

}  // namespace weft
