// Tokenises documents on several threads. The ids do not depend on the number of threads. Not installed.
#pragma once

#include <cstdint>
#include <span>

#include "weft/data/document_stream.h"
#include "weft/data/documents.h"
#include "weft/data/vocabulary.h"

namespace weft {

// A place at which tokenising can be continued.
struct TokeniserState {
  StreamPosition position;
  bool first = true;           // no document has begun
  bool separated = false;      // the document before ended with the separator
  bool conversations = false;  // there was a conversation
};

// Receives the ids of all documents in order.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void add(std::span<const int32_t> ids) = 0;
  virtual void begin_document() = 0;  // the next id is the first of a document; a separator belongs to the document before it
  // All ids before `state` were passed on. Called every few megabytes of text, at the same places for any number of threads and
  // wherever tokenising was started, and at the end.
  virtual void pass(const TokeniserState& /*state*/) {}
  virtual void end_file(int64_t /*file*/, uint64_t /*hash*/) {}  // a file was read to its end; its ids come before the next pass()
};

// Passes on consecutive ids of all documents, as append_document gives them. Holds a few megabytes of text and their ids in memory, and
// at most a few copies of one document; text files are split where the vocabulary allows it.
struct TokeniseOptions {
  int threads = 1;
  size_t batch_bytes = size_t(8) << 20;  // of text, encoded between two calls of pass(): 128 tasks, at most 32 MiB of ids
};
void tokenise(const Documents& documents, const Vocabulary& vocabulary, const TokeniseOptions& options, TokenSink& sink,
              const TokeniserState& from = {});

}  // namespace weft
