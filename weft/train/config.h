// The settings of a training run in one table: name, default, meaning, and whether a resumed run may change them. The flags of the
// command line (--learning-rate), the keys of a TOML file (learning_rate) and config.toml in the run's folder come from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft {

struct TrainConfig {
  std::string task = "pretrain";
  // Data.
  std::string data = "";  // resolved: "sums" for a new model
  std::string validation_data = "";
  std::string field = "text";
  std::string tokenizer = "";
  std::string end_token = "";
  std::string chat_template = "";
  std::string vocabulary = "characters";
  std::string cache = "";
  int64_t sequence = 0;
  std::string packing = "";  // resolved, unless the data is sums
  double validation = 0.05;
  int64_t sums_digits = 2;
  bool sums_reversed = false;
  int64_t sums_rows = 64;
  // Model.
  std::string model = "llama-tiny";
  int64_t context = 0;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, ffn = 0;
  std::string dtype = "f32";
  double dropout = -1;
  bool recompute = false;
  int64_t lora_rank = 0;
  double lora_alpha = 16;
  double lora_dropout = 0;
  std::string lora_targets = "";
  // Training.
  int64_t steps = 0;  // resolved: 1000, unless epochs is set
  double epochs = 0;
  int64_t batch = 4;
  int64_t accumulate = 1;
  int64_t pass_tokens = 0;
  std::string optimizer = "adamw";
  double learning_rate = 0;
  std::string schedule = "cosine";
  int64_t warmup = 50;
  int64_t decay = 0;
  double final_fraction = 0.1;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.1;
  bool decay_all = false;
  double clip = 1.0;
  int64_t seed = 0;
  int64_t patience = 0;
  std::string on_bad_step = "stop";
  // Run.
  std::string device = "cpu";
  int64_t threads = 0;
  std::string shard = "optimizer";
  int64_t timeout = 600;
  std::string out = "";
  int64_t save_every = 500;
  int64_t keep = 2;
  bool keep_best = true;
  int64_t evaluate_every = 100;
  int64_t evaluate_units = 50;
  std::string evaluate_tasks = "";
  int64_t evaluate_tasks_every = 0;
  int64_t evaluate_tasks_items = 0;
  int64_t evaluate_tasks_shots = 0;
  std::string evaluate_tasks_shots_data = "";
  int64_t evaluate_tasks_seed = 1234;
  int64_t sample_every = 0;
  int64_t sample_tokens = 200;
  std::string prompt = "";
  int64_t log_every = 10;

  bool operator==(const TrainConfig&) const = default;
};

// Rule for a setting when a run is resumed.
enum class Resume : uint8_t {
  fixed,     // keeps it: other data would follow, or the weights would have another shape
  reported,  // may change it, and the change is printed
  free,      // may change it: results do not depend on it
};

struct Setting {
  using Field = std::variant<std::string TrainConfig::*, int64_t TrainConfig::*, double TrainConfig::*, bool TrainConfig::*>;
  std::string_view group;
  std::string_view key;  // as in TOML; the flag has dashes for underscores
  Field field;
  Resume resume;
  std::string_view help;
  std::string_view aliases = "";  // other names of the flag, separated by commas
  std::string_view newer = "";    // a clearer name of the key, also accepted in TOML
};

std::span<const Setting> settings();
std::string setting_text(const TrainConfig& config, const Setting& setting);  // its value, as in TOML

// Sets what the file sets. Throws bad_file naming the file, the line, and for an unknown key the nearest known one.
void read_config(const std::string& path, TrainConfig& config);
void parse_config(std::string_view text, const std::string& where, TrainConfig& config);

// The settings of a run, from its config.toml or a checkpoint. A key that it lacks has the meaning of the time before there was one:
// packing was concatenate, of conversations none.
TrainConfig read_run_config(const std::string& path);
TrainConfig parse_run_config(std::string_view text, const std::string& where);

// All settings as TOML, in the order of the table; read_config restores the same config.
std::string to_toml(const TrainConfig& config);

// The known key that `key` is an alias of, or the nearest in spelling; "" if none is near.
std::string nearest_key(std::string_view key);

// Throws, naming the setting and its value, for a value that is out of range or has no effect.
void check_config(const TrainConfig& config);

}  // namespace weft
