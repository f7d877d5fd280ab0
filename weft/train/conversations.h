// How a run reads conversations in its data. Not installed.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/chat/chat_format.h"
#include "weft/data/documents.h"
#include "weft/train/config.h"

namespace weft {

// Renders with --chat-template, else with the template of the tokenizer's folder, which is read when the first conversation is found. A
// conversation without any template is an error that names the flag.
ConversationReader conversation_reader(const TrainConfig& config);

// The template of the run: --chat-template, else that of the tokenizer's folder. Throws, naming the flag, if there is none.
ChatFormat chat_format(const TrainConfig& config);
uint64_t template_hash(const TrainConfig& config);  // of the files or the text it comes from

}  // namespace weft
