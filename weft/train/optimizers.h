// The optimizers. Defaults are those of `weft train`, but for the learning rate, which there comes from a schedule.
//
//   AdamW   Adam with decoupled weight decay                              (weft/ops/adamw)
//   SGD     gradient descent with momentum; weight decay is part of the gradient  (weft/ops/sgd)
//   Lion    the sign of an interpolated momentum                          (weft/ops/lion)
//   Muon    orthogonalised momentum for matrices inside the model; AdamW for embeddings, the head and vectors  (weft/ops/muon)
//
// `owned`: the range of each parameter that this optimizer updates (ParameterShards::of_rank); empty: all.
// Weight decay goes to parameters whose role has it (weft/nn/parameter.h: everything but vectors); `decay_all`: to all.
#pragma once

#include <vector>

#include "weft/train/optimizer.h"

namespace weft {

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_all = false;
};

class AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<Parameter> parameters, const AdamWOptions& options = {}, std::vector<Range> owned = {});

 private:
  void launch(const Tensor& grad_scale) override;

  AdamWOptions options_;
  std::vector<size_t> all_;
};

struct SGDOptions {
  double learning_rate = 1e-2;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.1;
  bool decay_all = false;
};

class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Parameter> parameters, const SGDOptions& options = {}, std::vector<Range> owned = {});

 private:
  void launch(const Tensor& grad_scale) override;

  SGDOptions options_;
};

struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.95;
  double weight_decay = 0.1;
  bool decay_all = false;
};

class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Parameter> parameters, const LionOptions& options = {}, std::vector<Range> owned = {});

 private:
  void launch(const Tensor& grad_scale) override;

  LionOptions options_;
};

struct MuonOptions {
  double learning_rate = 1e-3;
  double momentum = 0.9;                         // of the matrices
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  // of what AdamW updates
  double weight_decay = 0.1;
  bool decay_all = false;
};

class Muon : public Optimizer {
 public:
  explicit Muon(std::vector<Parameter> parameters, const MuonOptions& options = {}, std::vector<Range> owned = {});

  // The parameters that are owned as a whole or not at all: those that are made orthogonal.
  static std::vector<bool> whole_of(const std::vector<Parameter>& parameters);
  bool whole(size_t i) const override;

 private:
  void launch(const Tensor& grad_scale) override;

  MuonOptions options_;
  std::vector<size_t> matrices_, others_;
};

}  // namespace weft
