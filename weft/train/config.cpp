#include "weft/train/config.h"

#include <algorithm>
#include <charconv>
#include <set>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "weft/base/check.h"
#include "weft/base/spelling.h"
#include "weft/io/mapped_file.h"

namespace weft {
namespace {

using C = TrainConfig;

constexpr Setting kSettings[] = {
    {"data", "task", &C::task, Resume::fixed,
     "pretrain: learn the text of --data; sft: learn the assistant's answers in conversations (\"messages\", or \"prompt\" and "
     "\"completion\"), rendered with the chat template"},
    {"data", "data", &C::data, Resume::free,  // a checkpoint has the hash of its contents
     "Text, JSONL or JSON files (also .gz, .zst), folders and globs of them, a folder of weft prepare, a list of these separated by "
     "commas, "
     "with weights (a.jsonl:0.7,b/:0.3) or without, or 'sums': built-in arithmetic (default for a new model: sums)",
     "dataset"},
    {"data", "validation_data", &C::validation_data, Resume::reported,
     "Data to validate on, as --data (default: a fraction of --data is held out, --validation)", "validation-file,eval-data,val-data"},
    {"data", "field", &C::field, Resume::fixed, "Field of a JSON object that holds its text", "text-field,text-column,text-key"},
    {"data", "tokenizer", &C::tokenizer, Resume::free,
     "Folder with tokenizer.json (default: the model folder, if it has one; the prepared folder)"},
    {"data", "end_token", &C::end_token, Resume::fixed,
     "Token placed between documents (default: the tokenizer's end token; none: no token)", "eos-token"},
    {"data", "chat_template", &C::chat_template, Resume::fixed,
     "chatml: gives the model this chat template and its special tokens; lines with \"messages\" are rendered with it (default: with the "
     "template of the tokenizer's folder)"},
    {"data", "vocabulary", &C::vocabulary, Resume::fixed, "Vocabulary if there is no tokenizer: the 'characters' of the text, or 'bytes'"},
    {"data", "cache", &C::cache, Resume::free, "Cache folder for tokenised data (default: ~/.cache/weft)"},
    {"data", "sequence", &C::sequence, Resume::fixed, "Tokens per sequence (0: the model's context length, at most 256; sft: 1024)",
     "seq-len,seq-length,sequence-length,block-size,max-seq-length"},
    {"data", "packing", &C::packing, Resume::fixed,
     "Documents in sequences: none (one in each, padded), concatenate (one stream that is cut), or documents (several in each that do not "
     "see each other) (default: documents; if the device has no attention for them concatenate, sft: none)"},
    {"data", "validation", &C::validation, Resume::fixed, "Fraction of the sequences (sft: conversations) held out for validation"},
    {"data", "sums_digits", &C::sums_digits, Resume::fixed, "sums: digits per operand, 2 or 3"},
    {"data", "sums_reversed", &C::sums_reversed, Resume::fixed, "sums: write the digits of the answer in reverse order"},
    {"data", "sums_rows", &C::sums_rows, Resume::fixed, "sums: examples per block; a block counts as one sequence of the batch"},
    {"model", "model", &C::model, Resume::fixed,
     "llama-tiny, gpt2-124m, smollm2-135m, llama-1b, llama-3.2-1b, qwen2.5-0.5b, qwen2.5-1.5b, qwen3-0.6b, shakespeare-char, mistral-7b, "
     "ministral-3-3b, granite-3.3-2b, smollm3-3b, olmo2-1b, olmo3-7b, phi-3-mini, gemma-2-2b, gemma-3-270m, gemma-3-1b, qwen3-30b-a3b, "
     "qwen3-moe-1b, mixtral-8x7b, gpt-oss-20b, or a Hugging Face folder "
     "to fine-tune"},
    {"model", "context", &C::context, Resume::fixed,
     "Context length of a new model (0: --sequence, the length it is trained on), or declared for a folder (0: as in its config); dynamic "
     "and longrope are computed from it",
     "max-positions,context-length"},
    {"model", "layers", &C::layers, Resume::fixed, "Transformer blocks of a new model (0: as in --model)", "num-layers,n-layer,n-layers"},
    {"model", "width", &C::width, Resume::fixed, "Hidden size of a new model (0: as in --model)", "hidden-size,n-embd,d-model"},
    {"model", "heads", &C::heads, Resume::fixed, "Attention heads of a new model (0: as in --model)", "num-heads,n-head,n-heads"},
    {"model", "kv_heads", &C::kv_heads, Resume::fixed,
     "Key/value heads of a new model (0: as in --model; if --heads is set, the same number)", "num-kv-heads"},
    {"model", "ffn", &C::ffn, Resume::fixed, "Feed-forward size of a new model (0: as in --model; if --width is set, in proportion to it)",
     "intermediate-size"},
    {"model", "dtype", &C::dtype, Resume::fixed, "f32, or bf16 with f32 master weights", "precision"},
    {"model", "dropout", &C::dropout, Resume::fixed, "Dropout probability (-1: as in the model's config)"},
    {"model", "recompute", &C::recompute, Resume::fixed,
     "Keep only the activations between blocks and recompute each block in the backward pass: less memory, a third more work",
     "gradient-checkpointing"},
    {"model", "lora_rank", &C::lora_rank, Resume::fixed,
     "Rank of the LoRA adapters trained on a model folder, whose weights stay frozen (0: no LoRA, all weights are trained)", "lora-r"},
    {"model", "lora_alpha", &C::lora_alpha, Resume::fixed, "LoRA scale is alpha / rank"},
    {"model", "lora_dropout", &C::lora_dropout, Resume::fixed, "Dropout probability of an adapter's input during training"},
    {"model", "lora_targets", &C::lora_targets, Resume::fixed,
     "Names of the layers that get an adapter, separated by commas, or all-linear (default: q_proj,v_proj; c_attn for GPT-2, qkv_proj for "
     "Phi-3)",
     "lora-target-modules"},
    {"training", "steps", &C::steps, Resume::reported, "Optimizer steps (0: as many as --epochs takes, or 1000)",
     "max-steps,iters,max-iters,num-steps"},
    {"training", "epochs", &C::epochs, Resume::reported,
     "Passes over the training data, instead of --steps: as many steps as read every sequence so often (0: --steps)",
     "num-epochs,num-train-epochs,max-epochs"},
    {"training", "batch", &C::batch, Resume::fixed, "Sequences (sums: blocks) per batch; a step takes batch x accumulate", "batch-size"},
    {"training", "accumulate", &C::accumulate, Resume::fixed, "Batches whose gradients are summed for one step",
     "gradient-accumulation-steps,grad-accum,accumulation-steps"},
    {"training", "pass_tokens", &C::pass_tokens, Resume::fixed,
     "Tokens per micro-batch (one forward and backward pass) at most, but never less than one sequence: fewer need less memory for "
     "activations "
     "(0: 2048 on the CPU, else 16384)",
     "micro-batch-tokens", "micro_batch_tokens"},
    {"training", "optimizer", &C::optimizer, Resume::fixed,
     "adamw, sgd, lion or muon (muon uses AdamW for parameters that are not matrices)"},
    {"training", "learning_rate", &C::learning_rate, Resume::reported,
     "Peak learning rate (0: 0.004 for sums, 0.0001 for a model folder, else 0.001)", "lr"},
    {"training", "schedule", &C::schedule, Resume::reported, "constant, linear, cosine or wsd (warm-up, stable, decay)",
     "lr-schedule,lr-scheduler"},
    {"training", "warmup", &C::warmup, Resume::reported, "Steps of linear warm-up", "warmup-steps"},
    {"training", "decay", &C::decay, Resume::reported, "wsd: steps of the decay phase (0: a fifth of all)"},
    {"training", "final_fraction", &C::final_fraction, Resume::reported, "Learning rate at the last step, as a fraction of the peak"},
    {"training", "beta1", &C::beta1, Resume::reported, "adamw, lion: decay rate of the first moment"},
    {"training", "beta2", &C::beta2, Resume::reported, "adamw, lion: decay rate of the second moment"},
    {"training", "eps", &C::eps, Resume::reported, "adamw: term added to the root of the second moment"},
    {"training", "momentum", &C::momentum, Resume::reported, "sgd, muon: momentum"},
    {"training", "nesterov", &C::nesterov, Resume::reported, "sgd: Nesterov momentum"},
    {"training", "weight_decay", &C::weight_decay, Resume::reported, "Decoupled weight decay (sgd: added to the gradient)", "wd"},
    {"training", "decay_all", &C::decay_all, Resume::reported, "Apply weight decay to vectors too, not only to matrices"},
    {"training", "clip", &C::clip, Resume::reported,
     "Largest global gradient norm; larger gradients are scaled down to it (0: no clipping)", "grad-clip,max-grad-norm,clip-grad"},
    {"training", "seed", &C::seed, Resume::fixed, "Seed of initial weights, data order, dropout and samples"},
    {"training", "patience", &C::patience, Resume::reported,
     "Ends the run after so many evaluations in a row without a lower validation loss (0: never)", "early-stopping-patience"},
    {"training", "on_bad_step", &C::on_bad_step, Resume::reported,
     "A step whose loss or gradient norm is not finite: stop ends the run with a capture of it, skip goes on without its update"},
    {"run", "device", &C::device, Resume::free,
     "Device to train on: cpu, cuda:0, metal; of several ranks cuda is the GPU of the local rank"},
    {"run", "threads", &C::threads, Resume::free, "CPU threads (0: all this process may use); results do not depend on it"},
    {"run", "shard", &C::shard, Resume::free,
     "Several ranks: what each keeps of its own part of the parameters only: none, optimizer (its state; ZeRO-1) or gradients (their "
     "sums as well; ZeRO-2); results do not depend on it"},
    {"run", "timeout", &C::timeout, Resume::free, "Several ranks: seconds after which a rank that does not answer ends the run"},
    {"run", "out", &C::out, Resume::free, "Folder of the run (default: runs/<model>-<data>)", "output,output-dir,out-dir"},
    {"run", "save_every", &C::save_every, Resume::free, "Steps between checkpoints (0: only at the end)", "save-steps"},
    {"run", "keep", &C::keep, Resume::free, "Number of checkpoints to keep", "save-total-limit"},
    {"run", "keep_best", &C::keep_best, Resume::free, "Keep the model with the lowest validation loss in best/"},
    {"run", "evaluate_every", &C::evaluate_every, Resume::free, "Steps between evaluations on held-out data (0: only at the end)",
     "eval-every,eval-steps,eval-interval"},
    {"run", "evaluate_units", &C::evaluate_units, Resume::free, "Held-out sequences (sums: blocks) per evaluation (0: all)",
     "evaluate-sequences,eval-sequences,eval-units", "evaluate_sequences"},
    {"run", "evaluate_tasks", &C::evaluate_tasks, Resume::free,
     "JSONL files with tasks that the model is evaluated on during the run, separated by commas (docs/evaluation.md)", "eval-tasks,tasks"},
    {"run", "evaluate_tasks_every", &C::evaluate_tasks_every, Resume::free, "Steps between evaluations on tasks (0: at every evaluation)"},
    {"run", "evaluate_tasks_items", &C::evaluate_tasks_items, Resume::free, "Items of each task per evaluation, from the first (0: all)"},
    {"run", "evaluate_tasks_shots", &C::evaluate_tasks_shots, Resume::free,
     "Few-shot examples before each item of a task; texts have none"},
    {"run", "evaluate_tasks_shots_data", &C::evaluate_tasks_shots_data, Resume::free,
     "JSONL file that they are taken from, or one for each task, separated by commas (default, or an empty name: the task's other items)"},
    {"run", "evaluate_tasks_seed", &C::evaluate_tasks_seed, Resume::free, "Seed of the draw of few-shot examples; lm-eval's default"},
    {"run", "sample_every", &C::sample_every, Resume::free, "Steps between samples for the report (0: at every evaluation)"},
    {"run", "sample_tokens", &C::sample_tokens, Resume::free, "Tokens per sample"},
    {"run", "prompt", &C::prompt, Resume::free,
     "Prompt of the samples (default: the beginning of the held-out text; sft: a question, default: that of a held-out conversation)"},
    {"run", "log_every", &C::log_every, Resume::free, "Steps between log lines if the output is not a terminal"},
};

// Keys have underscores where flags have dashes.
bool is_alias(std::string_view key, std::string_view aliases) {
  std::string flag(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  const std::vector<std::string> words = words_in(aliases);
  return std::find(words.begin(), words.end(), flag) != words.end();
}

const Setting* find(std::string_view key) {
  const auto found = std::find_if(std::begin(kSettings), std::end(kSettings),
                                  [&](const Setting& s) { return s.key == key || (!s.newer.empty() && s.newer == key); });
  return found == std::end(kSettings) ? nullptr : &*found;
}

void assign(TrainConfig& config, const Setting& setting, const toml::node& value, const std::string& where) {
  const auto wrong = [&](const char* expected) { fail(ErrorCode::bad_file, where, setting.key, " must be ", expected); };
  std::visit(
      [&]<class T>(T TrainConfig::* field) {
        if constexpr (std::is_same_v<T, std::string>) {
          if (!value.is_string()) wrong("a string");
        } else if constexpr (std::is_same_v<T, bool>) {
          if (!value.is_boolean()) wrong("true or false");
        } else if constexpr (std::is_same_v<T, int64_t>) {
          if (!value.is_integer()) wrong("an integer");
        } else {
          if (!value.is_number()) wrong("a number");
        }
        config.*field = *value.value<T>();
      },
      setting.field);
}

// TOML takes no other control character as it is.
std::string unicode_escape(char c) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'\\', 'u', '0', '0', kDigits[uint8_t(c) >> 4], kDigits[uint8_t(c) & 15]};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default: uint8_t(c) < 0x20 || c == 0x7f ? out += unicode_escape(c) : out += c;
    }
  return out + "\"";
}

std::string shortest(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string out(text, end);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

}  // namespace

std::span<const Setting> settings() { return kSettings; }

std::string setting_text(const TrainConfig& config, const Setting& setting) {
  return std::visit(
      [&]<class T>(T TrainConfig::* field) -> std::string {
        if constexpr (std::is_same_v<T, std::string>)
          return quoted(config.*field);
        else if constexpr (std::is_same_v<T, bool>)
          return config.*field ? "true" : "false";
        else if constexpr (std::is_same_v<T, double>)
          return shortest(config.*field);
        else
          return std::to_string(config.*field);
      },
      setting.field);
}

std::string nearest_key(std::string_view key) {
  std::vector<std::string> words;
  for (const Setting& setting : kSettings) {
    if (is_alias(key, setting.aliases)) return std::string(setting.key);
    words.emplace_back(setting.key);
  }
  return nearest_word(key, words);
}

void parse_config(std::string_view text, const std::string& where, TrainConfig& config) {
  const toml::parse_result parsed = toml::parse(text, where);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    fail(ErrorCode::bad_file, join(where, ":", error.source().begin.line), "is not valid TOML: ", error.description());
  }
  std::set<std::string_view> assigned;
  for (const auto& [key, value] : parsed.table()) {
    const std::string at = join(where, ":", key.source().begin.line);
    if (const Setting* setting = find(key.str())) {
      if (!assigned.insert(setting->key).second) fail(ErrorCode::bad_file, at, setting->key, " is set twice, also under another name");
      assign(config, *setting, value, at);
      continue;
    }
    const std::string near = nearest_key(key.str());
    fail(ErrorCode::bad_file, at, "there is no setting '", key.str(), "'",
         near.empty() ? "; weft train --help lists all" : join(", did you mean '", near, "'?"));
  }
}

void read_config(const std::string& path, TrainConfig& config) {
  const MappedFile file(path);
  parse_config({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path, config);
}

TrainConfig parse_run_config(std::string_view text, const std::string& where) {
  TrainConfig config;
  config.packing = "concatenate";
  parse_config(text, where, config);
  if (config.data == "sums") config.packing = "";
  if (config.task == "sft" && config.packing == "concatenate") config.packing = "none";
  return config;
}

TrainConfig read_run_config(const std::string& path) {
  const MappedFile file(path);
  return parse_run_config({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

std::string to_toml(const TrainConfig& config) {
  std::string out;
  std::string_view group;
  for (const Setting& setting : kSettings) {
    if (setting.group != group) out += join(out.empty() ? "" : "\n", "# ", setting.group, "\n");
    group = setting.group;
    out += join(setting.key, " = ", setting_text(config, setting), "\n");
  }
  return out;
}

}  // namespace weft
