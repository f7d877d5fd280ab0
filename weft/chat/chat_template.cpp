#include "weft/chat/chat_template.h"

#include "weft/chat/parser.h"
#include "weft/chat/trouble.h"

namespace weft::chat {

ChatTemplate::ChatTemplate(std::string_view source, std::string file, const TemplateLimits& limits)
    : file_(std::move(file)), limits_(limits), tree_(parse_template(source, file_, limits_)) {}

Rendered ChatTemplate::render(const Variables& variables, std::time_t now) const {
  Machine machine(tree_, variables, limits_, now);
  try {
    return machine.run();
  } catch (const Trouble& trouble) {
    if (trouble.raised) fail(trouble.code, file_, "the template refuses this conversation (line ", machine.line(), "): ", trouble.message);
    fail(trouble.code, file_, "line ", machine.line(), ": ", trouble.message);
  }
}

}  // namespace weft::chat
