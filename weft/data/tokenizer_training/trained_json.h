// The files of a trained tokenizer. Not installed.
#pragma once

#include <string>

#include "weft/data/tokenizer_training/merge_learner.h"
#include "weft/data/tokenizer_training/train_tokenizer.h"

namespace weft {

const char* pattern_text(WordPattern pattern);
// The special tokens, in the order of their ids.
std::vector<std::string> special_tokens(const TokenizerTraining& options);

std::string trained_tokenizer_json(const LearnedMerges& learned, const TokenizerTraining& options);
std::string trained_config_json(const TokenizerTraining& options);

}  // namespace weft
