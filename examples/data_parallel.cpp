// Training shared by several processes: a small Llama learns to add.  data_parallel [STEPS], or mpirun -n 4 data_parallel [STEPS]
//
// A step has eight micro-batches; 1, 2, 4 or 8 ranks share them. What is printed is the same to the last bit for any number of ranks.
#include <cstdio>
#include <cstdlib>
#include <weft/weft.h>
using namespace weft;

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 200, micro_batches = 8;
  const auto ranks = open_communicator();  // of mpirun or srun; otherwise this process alone
  const auto device = open_device("cpu", {.threads = share_cores(*ranks, 0)});
  const SumsDataset data({.digits = 2, .rows = 32});

  ModelConfig config = preset("llama-tiny");
  config.vocab_size = data.vocabulary().size();
  const auto model = make_model(config, *device, /*seed=*/0, {.trainable = true});

  // Each rank keeps AdamW's state for its own range of every parameter.
  const ParameterShards shards(model->trainable_parameters(), {}, ranks->size());
  AdamW optimizer(model->trainable_parameters(), {.weight_decay = 0.1}, shards.of_rank(ranks->rank()));
  TrainingStep training(*model, optimizer, {.clip = 1, .micro_batch_tokens = 1}, *ranks);  // one sequence in a micro-batch

  const Share share = share_of(micro_batches, *ranks, Sharding::optimizer);
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<TokenBatch> own;
    for (int64_t index : share.micro_batches) own.push_back(data.training_sequence(step * micro_batches + index));
    const StepResult result = training.gradients(own);  // of all ranks
    training.apply(2e-3);
    if (ranks->first() && ((step + 1) % 50 == 0 || step + 1 == steps))
      std::printf("step %lld  loss %.9f  gradient norm %.9f\n", (long long)step + 1, result.loss, result.gradient_norm);
  }
  if (ranks->first()) std::printf("%.1f %% of %zu unseen sums right\n", 100 * sums_accuracy(*model, data), data.held_out().size());
}
