// Documents in JSON files, parsed one at a time. Not installed.
#pragma once

#include "weft/data/documents.h"

namespace weft {

// The functions that get the documents of a file: the text, or the JSON of a conversation (empty: conversations are refused).
struct JsonVisitor {
  const DocumentVisitor &text, &conversation;
};

// One object per line; a text that begins with '[' is read as visit_json reads it.
void visit_json_lines(std::string_view text, const std::string& path, const JsonVisitor& visitor);

// A list of objects or strings, or several objects separated by white space.
void visit_json(std::string_view text, const std::string& path, const JsonVisitor& visitor);

}  // namespace weft
