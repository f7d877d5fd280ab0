#include "weft/data/chat_lines.h"

#include "weft/data/documents.h"

namespace weft {

void visit_chat_lines(const Documents& documents, const ChatLineVisitor& visitor) { documents.visit_json(visitor); }

}  // namespace weft
