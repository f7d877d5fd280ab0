// A vocabulary with the special tokens of a chat template.
#pragma once

#include <memory>

#include "weft/data/chat_template.h"
#include "weft/data/vocabulary.h"

namespace weft {

// `base` and the tokens of the template that it lacks, with the ids after its own. The template's end of turn ends a text. The files it
// writes have the template: the folder renders conversations in transformers as here.
std::unique_ptr<Vocabulary> chat_vocabulary(std::unique_ptr<Vocabulary> base, const ChatTemplate& chat);

}  // namespace weft
