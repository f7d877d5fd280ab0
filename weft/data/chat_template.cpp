#include "weft/data/chat_template.h"

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr std::string_view kChatMl = R"({%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}
            {{- (message['content'] or '') + '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- (message['content'] or '') + '<|im_end|>' }}
    {%- endif %}
    {{- '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
)";

}  // namespace

const ChatTemplate& chat_template(std::string_view name) {
  static const ChatTemplate kTemplates[] = {{"chatml", kChatMl, {"<|im_start|>", "<|im_end|>"}, "<|im_end|>"}};
  for (const ChatTemplate& each : kTemplates)
    if (each.name == name) return each;
  fail(ErrorCode::invalid_argument, "train", "chat_template is '", name, "', expected chatml");
}

}  // namespace weft
