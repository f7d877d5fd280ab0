// How a run reads conversations in its data. Not installed.
#pragma once

#include "weft/data/documents.h"
#include "weft/train/config.h"

namespace weft {

// Renders with --chat-template, else with the template of the tokenizer's folder, which is read when the first conversation is found. A
// conversation without any template is an error that names the flag.
ConversationReader conversation_reader(const TrainConfig& config);

}  // namespace weft
