// Readers of one file each: text, JSON lines, a JSON list, JSON objects in a row. Not installed.
#pragma once

#include "weft/data/document_stream.h"

namespace weft {

// `from` is a position() of a reader of the same file; the stream is read from its beginning in any case.
std::unique_ptr<PassageReader> passage_reader(ByteStream& stream, Kind kind, const Cut& cut, const StreamPosition& from);

}  // namespace weft
