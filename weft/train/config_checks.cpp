// Checks of a config that need neither data nor device.
#include <cmath>

#include "weft/base/check.h"
#include "weft/data/chat_template.h"
#include "weft/data/dataset.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/train/config.h"
#include "weft/train/optimizer_choice.h"
#include "weft/train/schedule.h"
#include "weft/train/sharding.h"

namespace weft {
namespace {

constexpr int64_t kMostSequences = int64_t(1) << 20, kMostSteps = INT32_MAX;

void check_sizes(const TrainConfig& c) {
  const auto at_least = [](const char* key, int64_t value, int64_t least) {
    check(value >= least, "train", key, " is ", value, ", expected ", least, " or more");
  };
  const auto within = [](const char* key, int64_t value, int64_t least, int64_t most) {
    check(least <= value && value <= most, "train", key, " is ", value, ", expected ", least, " to ", most);
  };
  within("steps", c.steps, 0, kMostSteps);
  within("batch", c.batch, 1, kMostSequences);
  within("accumulate", c.accumulate, 1, kMostSequences);
  check(c.batch * c.accumulate <= kMostSequences, "train", "batch x accumulate is ", c.batch * c.accumulate,
        " sequences in a step, expected at most ", kMostSequences);
  within("sums_rows", c.sums_rows, 1, kMostSequences);
  within("sums_digits", c.sums_digits, 2, 3);
  within("threads", c.threads, 0, 4096);
  within("timeout", c.timeout, 1, 7 * 24 * 3600);
  at_least("keep", c.keep, 1);
  for (const auto& [key, value] : {std::pair{"layers", c.layers},
                                   {"width", c.width},
                                   {"heads", c.heads},
                                   {"kv_heads", c.kv_heads},
                                   {"ffn", c.ffn},
                                   {"sequence", c.sequence},
                                   {"context", c.context},
                                   {"pass_tokens", c.pass_tokens},
                                   {"warmup", c.warmup},
                                   {"patience", c.patience},
                                   {"decay", c.decay},
                                   {"save_every", c.save_every},
                                   {"evaluate_every", c.evaluate_every},
                                   {"evaluate_units", c.evaluate_units},
                                   {"evaluate_tasks_every", c.evaluate_tasks_every},
                                   {"evaluate_tasks_items", c.evaluate_tasks_items},
                                   {"evaluate_tasks_shots", c.evaluate_tasks_shots},
                                   {"evaluate_tasks_seed", c.evaluate_tasks_seed},
                                   {"sample_every", c.sample_every},
                                   {"sample_tokens", c.sample_tokens},
                                   {"log_every", c.log_every},
                                   {"lora_rank", c.lora_rank},
                                   {"seed", c.seed}})
    at_least(key, value, 0);
}

void check_numbers(const TrainConfig& c) {
  const auto not_negative = [](const char* key, double value) {
    check(std::isfinite(value) && value >= 0, "train", key, " is ", value, ", expected a number of zero or more");
  };
  const auto below_one = [](const char* key, double value) {
    check(value >= 0 && value < 1, "train", key, " is ", value, ", expected zero or more and below 1");
  };
  for (const auto& [key, value] : {std::pair{"learning_rate", c.learning_rate},
                                   {"eps", c.eps},
                                   {"weight_decay", c.weight_decay},
                                   {"clip", c.clip},
                                   {"epochs", c.epochs}})
    not_negative(key, value);
  for (const auto& [key, value] : {std::pair{"validation", c.validation},
                                   {"beta1", c.beta1},
                                   {"beta2", c.beta2},
                                   {"momentum", c.momentum},
                                   {"lora_dropout", c.lora_dropout}})
    below_one(key, value);
  if (c.dropout != -1)
    check(c.dropout >= 0 && c.dropout < 1, "train", "dropout is ", c.dropout, ", expected zero or more and below 1, or -1");
  check(c.final_fraction >= 0 && c.final_fraction <= 1, "train", "final_fraction is ", c.final_fraction, ", expected 0 to 1");
  check(std::isfinite(c.lora_alpha) && c.lora_alpha > 0, "train", "lora_alpha is ", c.lora_alpha, ", expected a number above 0");
}

void check_words(const TrainConfig& c) {
  for (const Setting& setting : settings())
    if (const auto field = std::get_if<std::string TrainConfig::*>(&setting.field))
      check(first_invalid_utf8(c.**field) == (c.**field).size(), "train", setting.key,
            " is not UTF-8: the run's config.toml could not be read back");
  check(c.evaluate_tasks_shots_data.empty() || c.evaluate_tasks_shots > 0, "train", "evaluate_tasks_shots_data is '",
        c.evaluate_tasks_shots_data, "', which needs evaluate_tasks_shots, the number of examples before each item");
  check(c.evaluate_tasks_shots == 0 || !c.evaluate_tasks.empty(), "train", "evaluate_tasks_shots is ", c.evaluate_tasks_shots,
        ", but there are no tasks: evaluate_tasks is empty");
  check(!c.field.empty(), "train", "field is empty, expected the name of a field");
  check(!c.model.empty(), "train", "model is empty, expected a name or a folder");
  check(c.task == "pretrain" || c.task == "sft", "train", "task is '", c.task, "', expected pretrain or sft");
  check(c.dtype == "f32" || c.dtype == "bf16", "train", "dtype is '", c.dtype, "', expected f32 or bf16");
  check(c.vocabulary == "characters" || c.vocabulary == "bytes", "train", "vocabulary is '", c.vocabulary,
        "', expected characters or bytes");
  if (!c.chat_template.empty()) chat_template(c.chat_template);
  check(c.on_bad_step == "stop" || c.on_bad_step == "skip", "train", "on_bad_step is '", c.on_bad_step, "', expected stop or skip");
  if (!c.packing.empty()) packing_from_name(c.packing);
  check_optimizer_name(c.optimizer);
  sharding_from_name(c.shard);
  schedule_from_name(c.schedule);
}

// A setting that would have no effect is an error: the run would not be the one that was meant.
void check_agreement(const TrainConfig& c) {
  const TrainConfig usual;
  const auto needs = [](const char* key, bool set, bool met, const char* what) { check(!set || met, "train", key, " is set, but ", what); };
  const bool lora = c.lora_rank > 0, sums = c.data.empty() || c.data == "sums";
  needs("lora_alpha", c.lora_alpha != usual.lora_alpha, lora, "lora_rank is 0: all weights would be trained");
  needs("lora_dropout", c.lora_dropout != usual.lora_dropout, lora, "lora_rank is 0: all weights would be trained");
  needs("lora_targets", c.lora_targets != usual.lora_targets, lora, "lora_rank is 0: all weights would be trained");
  check(c.steps == 0 || c.epochs == 0, "train", "steps is ", c.steps, " and epochs is ", c.epochs,
        ": the length of a run is given by one of them; 0 takes one back");
  needs("patience", c.patience > 0, c.evaluate_every > 0, "evaluate_every is 0: there are no evaluations to wait for");
  needs("patience", c.patience > 0, c.keep_best, "keep_best is off: the best model would be lost");
  needs("decay", c.decay != 0, c.schedule == "wsd", "only the schedule wsd has a decay");
  needs("nesterov", c.nesterov, c.optimizer == "sgd", "only the optimizer sgd has it");
  needs("nesterov", c.nesterov, c.momentum > 0, "momentum is 0");
  needs("task", c.task == "sft", !sums, "sums are not conversations: pass --data");
  needs("end_token", !c.end_token.empty(), c.task != "sft", "the chat template writes all tokens of a conversation");
  needs("tokenizer", !c.tokenizer.empty(), !sums, "sums have a vocabulary of their own");
  needs("field", c.field != usual.field, !sums, "sums have no fields");
  needs("validation_data", !c.validation_data.empty(), !sums, "sums hold out some of their own");
  needs("validation", c.validation != usual.validation, c.validation_data.empty(), "validation_data is the data to validate on");
  needs("end_token", !c.end_token.empty(), !sums, "sums end with a newline");
  needs("chat_template", !c.chat_template.empty(), !sums, "sums have a vocabulary of their own");
  needs("packing", !c.packing.empty(), !sums, "sums have sequences of their own");
  needs("packing", c.packing == "concatenate", c.task != "sft", "conversations are not concatenated: expected none or documents");
  needs("context", c.context != 0, !sums, "sums have a length of their own");
  needs("vocabulary", c.vocabulary != usual.vocabulary, !sums, "sums have a vocabulary of their own");
  needs("vocabulary", c.vocabulary != usual.vocabulary, c.tokenizer.empty(), "there is a tokenizer");
}

}  // namespace

void check_config(const TrainConfig& config) {
  check_sizes(config);
  check_numbers(config);
  check_words(config);
  check_agreement(config);
}

}  // namespace weft
