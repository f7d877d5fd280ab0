// The lines of chat data: one JSON object each. Not installed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weft {

class Documents;

using ChatLineVisitor = std::function<void(std::string_view json, const std::string& where)>;

// Calls `visitor` for every object of the files in order, with one in memory at a time. Throws bad_file naming the file, and the line or
// element, that is not a JSON object, and a file of text.
void visit_chat_lines(const Documents& documents, const ChatLineVisitor& visitor);

}  // namespace weft
