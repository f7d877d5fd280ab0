// Tokenises documents on several threads. The ids do not depend on the number of threads. Not installed.
#pragma once

#include <functional>
#include <span>

#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"

namespace weft {

// Receives the ids of all documents in order.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void add(std::span<const int32_t> ids) = 0;
  virtual void begin_document() = 0;  // the next id is the first of a document; a separator belongs to the document before it
};

// Passes on consecutive ids of all documents, as append_document gives them. Holds at most a few megabytes of text and their ids in
// memory; a longer document is split where the vocabulary allows it, else encoded whole.
void tokenise(const Documents& documents, const Vocabulary& vocabulary, int threads, TokenSink& sink);

}  // namespace weft
