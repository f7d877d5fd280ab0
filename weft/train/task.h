// The tasks of a run. pretrain learns text (weft/train/setup.cpp); sft learns the assistant's answers in conversations. Not installed.
#pragma once

#include <vector>

#include "weft/train/setup.h"

namespace weft {

// Throws if the data holds prepared ids, which have no marks of answers.
void check_conversations(const TrainConfig& config);
// Reads, and if needed tokenises, the conversations of --data as training sequences of at most `sequence` tokens.
void read_conversations(const TrainConfig& config, int64_t sequence, TrainingProblem& problem, const Notice& notice);

// All characters that the rendered conversations have.
std::vector<char32_t> characters_of_conversations(const TrainConfig& config);

// A text of the model ends with the token that ends an answer, which the exported generation_config.json names first.
void end_at_turns(TrainingProblem& problem);

// The prompt of the samples: --prompt as a message of the user, else the beginning of a held-out conversation up to its first answer.
std::vector<int32_t> conversation_prompt(const TrainConfig& config, const TrainingProblem& problem);

}  // namespace weft
