#include "weft/train/setup.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "weft/base/check.h"
#include "weft/data/chat_vocabulary.h"
#include "weft/device/memory_use.h"
#include "weft/io/gguf.h"
#include "weft/models/config_json.h"
#include "weft/models/load.h"
#include "weft/models/tokenizer_folder.h"
#include "weft/nn/weights.h"
#include "weft/data/data_list.h"
#include "weft/data/documents.h"
#include "weft/data/mixture.h"
#include "weft/train/conversations.h"
#include "weft/train/optimizer_choice.h"
#include "weft/train/phase.h"
#include "weft/train/run_tasks.h"
#include "weft/train/task.h"
#include "weft/data/token_cache.h"

namespace weft {
namespace {

DType compute_dtype(const TrainConfig& config) { return config.dtype == "bf16" ? DType::bf16 : DType::f32; }

// Weights with shapes and no values.
class PlannedWeights : public Weights {
 public:
  using Weights::Weights;

 protected:
  Tensor fetch(const std::string&, const Shape& shape, const Init&) override { return Tensor::empty(device(), shape, dtype()); }
};

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (size_t from = 0; from <= list.size();) {
    const size_t comma = std::min(list.find(',', from), list.size());
    names.push_back(list.substr(from, comma - from));
    check(!names.back().empty(), "train", "lora_targets is '", list, "', expected names separated by commas");
    from = comma + 1;
  }
  return names;
}

const char* default_targets(const ModelConfig& model) {
  return model.architecture == Architecture::gpt2 ? "c_attn" : model.fused_projections ? "qkv_proj" : "q_proj,v_proj";
}

std::optional<LoraOptions> lora_options(const TrainConfig& c, const ModelConfig& model) {
  if (c.lora_rank == 0) return std::nullopt;
  return LoraOptions{.rank = c.lora_rank,
                     .scale = c.lora_alpha / double(c.lora_rank),
                     .targets = names_in(c.lora_targets.empty() ? default_targets(model) : c.lora_targets),
                     .seed = uint64_t(c.seed),
                     .dropout = c.lora_dropout};
}

// The first prepared folder of the data; "" if there is none.
std::string prepared_folder(const std::string& data) {
  for (const DataItem& item : data_items(data))
    if (is_prepared_data(item.path)) return item.path;
  return "";
}

std::unique_ptr<Vocabulary> plain_vocabulary(const TrainConfig& c) {
  if (!c.tokenizer.empty()) return tokenizer_vocabulary(c.tokenizer, c.end_token);
  if (is_folder(c.model)) return tokenizer_vocabulary(c.model, c.end_token);
  if (const std::string folder = prepared_folder(c.data); !folder.empty()) {
    check(c.end_token.empty(), "train", "end_token is '", c.end_token, "', but ", folder, " was prepared with its own; prepare it again");
    return prepared_vocabulary(folder);
  }
  check(c.end_token.empty(), "train", "end_token is '", c.end_token, "', but there is no tokenizer: ", c.vocabulary,
        " have a token of their own between documents");
  if (c.vocabulary == "bytes") return byte_vocabulary();
  if (c.task == "sft") return character_vocabulary(characters_of_conversations(c), /*end_of_text=*/false);
  const CharactersFound found = characters_of(Documents(unweighted_data(c), {}, conversation_reader(c), c.field));
  return character_vocabulary(found.characters, /*end_of_text=*/found.documents > 1);
}

// A model folder gets embeddings for the tokens of a chat template that it has none for.
void add_embeddings(const TrainConfig& c, TrainingProblem& problem, const Notice& notice) {
  const int64_t rows = problem.model.vocab_size, wanted = problem.vocabulary->size();
  if (c.chat_template.empty() || !is_folder(c.model) || wanted <= rows) return;
  check(c.lora_rank == 0, "train", "chat_template adds tokens ", rows, " to ", wanted - 1,
        ", whose embeddings LoRA would not train: lora_rank is ", c.lora_rank, ", and the model in ", c.model, " has ", rows,
        " embeddings; train all weights (lora_rank 0) on conversations first");
  problem.model.vocab_size = wanted;
  if (notice)
    notice(join("the model grows by ", wanted - rows, " tokens of the chat template, whose embeddings start as the mean of the others"));
}

void read_sums(const TrainConfig& c, TrainingProblem& problem) {
  auto data = std::make_unique<SumsDataset>(
      SumsOptions{.digits = int(c.sums_digits), .reversed = c.sums_reversed, .rows = c.sums_rows, .seed = uint64_t(c.seed)});
  problem.sums = data.get();
  problem.data = std::move(data);
  problem.vocabulary = {std::shared_ptr<void>(), &problem.data->vocabulary()};
  if (is_folder(c.model)) return;
  problem.model.max_positions = problem.sums->example_length();
  problem.model.window = std::min(problem.model.window, problem.model.max_positions);
}

// Sets the context of a new model: --context, else the length of its training sequences. The context of a folder is declared in
// model_config().
int64_t set_context(const TrainConfig& c, ModelConfig& model) {
  const int64_t sequence =
      c.sequence ? c.sequence : std::min<int64_t>(c.task == "sft" ? 1024 : 256, c.context ? c.context : model.max_positions);
  if (!is_folder(c.model)) {
    model.max_positions = c.context ? c.context : sequence;
    model.window = std::min(model.window, model.max_positions);
  }
  check(sequence <= model.max_positions, "train", "sequence is ", sequence, ", the model takes at most ", model.max_positions);
  return sequence;
}

void read_text(const TrainConfig& c, TrainingProblem& problem, const Notice& notice) {
  const int64_t sequence = set_context(c, problem.model);
  if (c.task == "sft") check_conversations(c);
  problem.vocabulary = training_vocabulary(c);
  add_embeddings(c, problem, notice);
  if (c.task == "sft") return read_conversations(c, sequence, problem, notice);
  TextOptions options{.field = c.field,
                      .cache_folder = c.cache.empty() ? default_cache_folder() : c.cache,
                      .tokens = sequence,
                      .packing = packing_of(c),
                      .validation_fraction = c.validation_data.empty() ? c.validation : 0,
                      .vocabulary_limit = is_folder(c.model) ? problem.model.vocab_size : 0,
                      .threads = int(c.threads),
                      .conversations = conversation_reader(c)};
  problem.data = read_lists(c, [&](const std::string& list, uint64_t seed, bool) {
    options.path = list;
    options.seed = seed;
    return text_dataset(options, problem.vocabulary, notice);
  });
}

void take_ids(ModelConfig& model, const SpecialIds& ids) {
  model.bos_id = ids.bos_id;
  model.pad_id = ids.pad_id;
  model.eos_ids = ids.eos_ids;
}

// A model folder keeps its special tokens if it keeps its tokenizer and the data ends texts with the same token.
void set_special_ids(const TrainConfig& c, TrainingProblem& problem) {
  if (problem.sums) return take_ids(problem.model, {.bos_id = {}, .pad_id = {}, .eos_ids = {problem.sums->newline()}});
  const SpecialIds ids = problem.vocabulary->special_ids();
  const bool own_tokenizer = is_folder(c.model) && c.tokenizer.empty() && c.chat_template.empty();
  if (!own_tokenizer)
    take_ids(problem.model, ids);
  else if (ids.eos_ids != TokenizerFolder(c.model).special_ids().eos_ids)
    problem.model.eos_ids = ids.eos_ids;
  if (problem.chat) end_at_turns(problem);
}

ModelConfig known_model(const std::string& name) {
  std::string known;
  for (const std::string& each : preset_names()) {
    if (each == name) return preset(name);
    known += (known.empty() ? "" : ", ") + each;
  }
  fail(ErrorCode::invalid_argument, "train", "model '", name,
       "' is neither a folder nor a known model; expected a model folder, or one of ", known);
}

// The preset's attention_scale for another head size: Gemma's stays head_dim^-1/2, Granite's (muP) the same multiple of 1 / head_dim, and 0
// (the default) 0.
double attention_scale_of(const ModelConfig& known, int64_t head_dim) {
  if (known.attention_scale == 1 / std::sqrt(double(known.head_dim))) return 1 / std::sqrt(double(head_dim));
  return known.attention_scale * double(known.head_dim) / double(head_dim);
}

}  // namespace

std::string unweighted_data(const TrainConfig& config) {
  std::string list;
  for (const std::string& data : {config.data, config.validation_data})
    if (!data.empty())
      for (const DataItem& item : data_items(data)) list += (list.empty() ? "" : ",") + item.path;
  return list;
}

std::unique_ptr<Dataset> read_lists(const TrainConfig& config, const DatasetReader& read) {
  const auto read_list = [&](const std::string& list) {
    const std::vector<DataItem> items = data_items(list);
    uint64_t seed = uint64_t(config.seed);
    if (!is_weighted(items)) return read(list, seed, false);
    std::vector<MixturePart> parts;
    for (const DataItem& item : items) parts.push_back({read(item.path, seed++, true), item.weight});
    return mixture(std::move(parts), seed);
  };
  std::unique_ptr<Dataset> training = read_list(config.data);
  if (config.validation_data.empty()) return training;
  return with_validation(std::move(training), read_list(config.validation_data));
}

std::shared_ptr<const Vocabulary> training_vocabulary(const TrainConfig& c) {
  if (c.chat_template.empty()) return plain_vocabulary(c);
  return chat_vocabulary(plain_vocabulary(c), chat_template(c.chat_template));
}

ModelConfig model_config(const TrainConfig& c) {
  if (is_folder(c.model)) {
    check(!c.layers && !c.width && !c.heads && !c.kv_heads && !c.ffn, "train", "model '", c.model,
          "' is a folder: its sizes cannot be changed");
    read_generation_config(c.model);  // reports its errors now rather than at the export
    ModelConfig m = read_model_config(c.model);
    if (c.context) declare_context(m, c.context);
    if (c.dropout >= 0) m.embedding_dropout = m.attention_dropout = m.residual_dropout = float(c.dropout);
    return m;
  }
  const ModelConfig known = known_model(c.model);
  ModelConfig m = known;
  const int64_t width = m.hidden_size;
  if (c.layers) set_layers(m, c.layers);
  if (c.width) m.hidden_size = c.width;
  if (c.heads) m.heads = c.heads;
  if (c.kv_heads)
    m.kv_heads = c.kv_heads;
  else if (c.heads)
    m.kv_heads = c.heads;
  if (c.ffn)
    m.intermediate_size = c.ffn;
  else if (c.width)
    m.intermediate_size = std::max<int64_t>(16, m.intermediate_size * c.width / width / 16 * 16);
  if (known.expert_size == known.intermediate_size)
    m.expert_size = m.intermediate_size;
  else if (c.width)
    m.expert_size = std::max<int64_t>(16, m.expert_size * c.width / width / 16 * 16);
  check(m.hidden_size % m.heads == 0, "train", "width is ", m.hidden_size, ", which is not a multiple of the ", m.heads, " heads");
  if (m.hidden_size != known.hidden_size || m.heads != known.heads) m.head_dim = m.hidden_size / m.heads;
  m.attention_scale = attention_scale_of(known, m.head_dim);
  if (known.embedding_scale == std::sqrt(double(width))) m.embedding_scale = std::sqrt(double(m.hidden_size));  // Gemma
  if (c.dropout >= 0) m.embedding_dropout = m.attention_dropout = m.residual_dropout = float(c.dropout);
  return m;
}

TrainingProblem make_problem(const TrainConfig& config, const Notice& notice) {
  TrainingProblem problem;
  check(config.lora_rank == 0 || is_folder(config.model), "train", "lora_rank is ", config.lora_rank, ", but '", config.model,
        "' is not a model folder: LoRA needs weights to adapt");
  problem.model = model_config(config);
  if (config.data == "sums")
    read_sums(config, problem);
  else
    read_text(config, problem, notice);
  if (!is_folder(config.model)) problem.model.vocab_size = problem.vocabulary->size();
  check(!problem.sums || problem.vocabulary->size() <= problem.model.vocab_size, "train", "sums have ", problem.vocabulary->size(),
        " ids, the model in ", config.model, " takes ", problem.model.vocab_size);
  problem.vocabulary->files();  // reports unreadable files now rather than at the export
  set_special_ids(config, problem);
  check_config(problem.model, "train");
  if (!config.evaluate_tasks.empty()) problem.tasks = std::make_shared<RunTasks>(config, problem.vocabulary, problem.model);
  return problem;
}

// "corpus/" gives "corpus", "." the name of the current folder.
std::string last_name(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return "";
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path last = whole.filename().empty() ? whole.parent_path().filename() : whole.filename();
  return last.empty() ? "root" : last.string();
}

Packing packing_of(const TrainConfig& c) { return c.packing.empty() ? Packing::documents : packing_from_name(c.packing); }

bool is_folder(const std::string& model) { return std::filesystem::is_directory(model); }

int64_t default_micro_batch_tokens(const std::string& device) { return device == "cpu" ? 2048 : 16384; }

TrainConfig resolved(TrainConfig config) {
  check(!is_gguf(config.model), "train", "model '", config.model, "' is a GGUF file; write it as a folder first: weft export ",
        config.model, " FOLDER");
  check(!is_gguf(config.tokenizer), "train", "tokenizer '", config.tokenizer, "' is a GGUF file; write it as a folder first: weft export ",
        config.tokenizer, " FOLDER");
  namespace fs = std::filesystem;
  if (config.data.empty()) {
    check(!is_folder(config.model), "train", "model '", config.model, "' is a folder, and there is no data to train it on: pass --data");
    config.data = "sums";
  }
  if (config.steps == 0 && config.epochs == 0) config.steps = 1000;
  if (config.pass_tokens == 0) config.pass_tokens = default_micro_batch_tokens(config.device);
  if (config.learning_rate == 0) config.learning_rate = config.data == "sums" ? 4e-3 : is_folder(config.model) ? 1e-4 : 1e-3;
  if (config.lora_rank > 0 && config.lora_targets.empty() && is_folder(config.model))
    config.lora_targets = default_targets(read_model_config(config.model));
  if (config.out.empty()) config.out = join("runs/", last_name(config.model), "-", data_name(config.data));
  return config;
}

TrainConfig with_model_sizes(TrainConfig config) {
  if (is_folder(config.model)) return config;
  const ModelConfig m = model_config(config);
  config.layers = m.layers, config.width = m.hidden_size, config.heads = m.heads, config.kv_heads = m.kv_heads,
  config.ffn = m.intermediate_size;
  if (m.embedding_dropout == m.attention_dropout && m.attention_dropout == m.residual_dropout) config.dropout = m.residual_dropout;
  return config;
}

std::unique_ptr<Model> make_training_model(const TrainConfig& config, const ModelConfig& model, Device& device) {
  const Phase loading(device);  // casting weights on the device takes memory that the run does not need later
  const MemoryScope scope(device, MemoryUse::weights);
  if (is_folder(config.model))
    return load_model(config.model, model, device,
                      {.dtype = compute_dtype(config),
                       .trainable = true,
                       .lora = lora_options(config, model),
                       .add_embeddings = !config.chat_template.empty()});
  return make_model(model, device, uint64_t(config.seed), {.dtype = compute_dtype(config), .trainable = true});
}

std::unique_ptr<Model> make_planned_model(const TrainConfig& config, const ModelConfig& model, Device& device) {
  const MemoryScope scope(device, MemoryUse::weights);
  PlannedWeights weights(device, compute_dtype(config), true);
  if (const auto lora = lora_options(config, model)) weights.adapt(*lora);
  return make_model(model, weights);
}

std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config, const Model& model, const Communicator& ranks, Sharding sharding) {
  const std::vector<Parameter> parameters = model.trainable_parameters();
  if (ranks.size() == 1 || sharding == Sharding::none) return make_optimizer(config, parameters);
  const ParameterShards shards(parameters, whole_parameters(config.optimizer, parameters), ranks.size());
  return make_optimizer(config, parameters, shards.of_rank(ranks.rank()));
}

StepOptions step_options(const TrainConfig& c) {
  return {.clip = c.clip, .recompute = c.recompute, .seed = uint64_t(c.seed), .micro_batch_tokens = c.pass_tokens};
}

StepSize step_size(const TrainConfig& c, const TrainingProblem& problem) {
  return {.batch = c.batch,
          .accumulate = c.accumulate,
          .sequence_tokens = int64_t(problem.data->training_sequence(0).ids.size()),
          .pass_tokens = c.pass_tokens};
}

int64_t steps_of(const TrainConfig& c, const TrainingProblem& problem) {
  if (c.epochs == 0) return c.steps;
  const double steps = std::ceil(c.epochs * double(problem.data->sequences_per_epoch()) / double(c.batch * c.accumulate));
  check(steps <= double(INT32_MAX), "train", "epochs is ", c.epochs, ", which takes ", steps, " steps, expected at most ", INT32_MAX);
  return int64_t(steps);
}

Schedule make_schedule(const TrainConfig& c) {
  const ScheduleKind kind = schedule_from_name(c.schedule);
  const int64_t decay = kind != ScheduleKind::wsd ? 0 : c.decay ? c.decay : c.steps / 5;
  // The warm-up is cut to fit a short run; a decay that was asked for keeps its length.
  const int64_t room = c.decay ? c.steps : c.steps - decay;
  const Schedule schedule{.kind = kind,
                          .peak = c.learning_rate,
                          .steps = c.steps,
                          .warmup = std::min(c.warmup, room),
                          .decay = decay,
                          .final_fraction = c.final_fraction};
  check_schedule(schedule);
  return schedule;
}

}  // namespace weft
