// Tokenises documents on several threads. The ids do not depend on the number of threads. Not installed.
#pragma once

#include <functional>
#include <span>

#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"

namespace weft {

// Calls `add` with consecutive ids of all documents, as append_document gives them. Holds at most a few megabytes of text and
// their ids in memory; a longer document is split where the vocabulary allows it, else encoded whole.
void tokenise(const Documents& documents, const Vocabulary& vocabulary, int threads,
              const std::function<void(std::span<const int32_t>)>& add);

}  // namespace weft
