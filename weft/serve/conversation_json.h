// Converts a chat request to JSON for Conversation::parse: messages, tools and variables of the template.
#pragma once

#include <string>
#include <string_view>

namespace weft::serve {

// `body`: a JSON object that parse_body() accepts. The order of keys is kept because templates print messages and tools as JSON. A content
// that is a list of texts becomes one text; arguments of a tool call that are JSON text become an object; the role "developer" becomes
// "system". Throws an ApiError that names the message.
std::string conversation_json(std::string_view body);

}  // namespace weft::serve
