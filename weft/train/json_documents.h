// Documents in JSON, found one after another: no more than one of them is parsed at a time. Not installed.
#pragma once

#include "weft/train/documents.h"

namespace weft {

// An object a line; a text that begins with '[' is read as by visit_json.
void visit_json_lines(std::string_view text, const std::string& path, const DocumentVisitor& visitor);

// A list of objects or strings, or objects one after another with white space between them.
void visit_json(std::string_view text, const std::string& path, const DocumentVisitor& visitor);

}  // namespace weft
