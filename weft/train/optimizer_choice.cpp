#include "weft/train/optimizer_choice.h"

#include "weft/base/check.h"
#include "weft/train/optimizers.h"

namespace weft {
namespace {

using Parameters = std::vector<Parameter>;
using Made = std::unique_ptr<Optimizer>;
using C = TrainConfig;

// The learning rate is set before every step, from the schedule.
struct Choice {
  std::string_view name;
  Made (*make)(Parameters parameters, const C& config, std::vector<Range> owned);
};

constexpr Choice kChoices[] = {
    {"adamw",
     [](Parameters p, const C& c, std::vector<Range> owned) -> Made {
       return std::make_unique<AdamW>(
           std::move(p),
           AdamWOptions{.beta1 = c.beta1, .beta2 = c.beta2, .eps = c.eps, .weight_decay = c.weight_decay, .decay_all = c.decay_all},
           std::move(owned));
     }},
    {"sgd",
     [](Parameters p, const C& c, std::vector<Range> owned) -> Made {
       return std::make_unique<SGD>(
           std::move(p),
           SGDOptions{.momentum = c.momentum, .nesterov = c.nesterov, .weight_decay = c.weight_decay, .decay_all = c.decay_all},
           std::move(owned));
     }},
    {"lion",
     [](Parameters p, const C& c, std::vector<Range> owned) -> Made {
       return std::make_unique<Lion>(
           std::move(p), LionOptions{.beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay, .decay_all = c.decay_all},
           std::move(owned));
     }},
    {"muon",
     [](Parameters p, const C& c, std::vector<Range> owned) -> Made {
       return std::make_unique<Muon>(std::move(p),
                                     MuonOptions{.momentum = c.momentum,
                                                 .beta1 = c.beta1,
                                                 .beta2 = c.beta2,
                                                 .eps = c.eps,
                                                 .weight_decay = c.weight_decay,
                                                 .decay_all = c.decay_all},
                                     std::move(owned));
     }},
};

const Choice& choice(std::string_view name) {
  for (const Choice& each : kChoices)
    if (each.name == name) return each;
  fail(ErrorCode::invalid_argument, "optimizer", "there is no optimizer '", name, "', expected adamw, sgd, lion or muon");
}

}  // namespace

void check_optimizer_name(std::string_view name) { choice(name); }

std::vector<bool> whole_parameters(std::string_view optimizer, const std::vector<Parameter>& parameters) {
  return choice(optimizer).name == "muon" ? Muon::whole_of(parameters) : std::vector<bool>(parameters.size());
}

std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config, std::vector<Parameter> parameters, std::vector<Range> owned) {
  return choice(config.optimizer).make(std::move(parameters), config, std::move(owned));
}

}  // namespace weft
