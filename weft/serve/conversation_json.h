// The conversation of a chat request, as JSON for Conversation::parse: messages, tools and the template's variables.
#pragma once

#include <string>
#include <string_view>

namespace weft::serve {

// `body`: a JSON object that parse_body() accepts. The order of keys is kept: templates print messages and tools as JSON. Contents that are
// lists of texts become one text, arguments of tool calls that are the text of an object become that object, and the role "developer"
// becomes "system". Throws an ApiError that names the message.
std::string conversation_json(std::string_view body);

}  // namespace weft::serve
