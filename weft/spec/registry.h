// All cases of all ops. Each op's spec.cpp defines `void add_specs_<op>(Registry&)`; CMake's weft_add_op makes the
// list of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/spec/problem.h"

namespace weft::spec {

// A case from the golden files: parameters from the file's metadata and tensors "<case>.<name>".
class GoldenCase {
 public:
  virtual ~GoldenCase() = default;
  virtual double number(const std::string& name) const = 0;
  virtual std::vector<int64_t> numbers(const std::string& name) const = 0;
  virtual Shape shape(const std::string& tensor) const = 0;
  virtual std::vector<double> values(const std::string& tensor) const = 0;
  int64_t integer(const std::string& name) const { return int64_t(number(name)); }
};

struct Case {
  std::string op;       // the folder: "rms_norm"
  std::string variant;  // "forward", "backward", "residual", ...
  DType dtype;
  std::string name;  // "3x257", "3x257/padded"
  std::function<Problem()> make;
  double ulps = 0;  // where the bound is a promise in ulp of the result, that promise: `weft check --verbose` lists them
};

struct Rejection {
  std::string op;
  std::string name;                      // "weight_rank"
  std::function<void(Device&)> attempt;  // must throw weft::Error
};

// A problem built from a golden case; `make` receives it and returns one problem with given inputs and golden outputs.
struct GoldenSource {
  std::string op;
  std::string variant;
  std::string file;  // "rms_norm.safetensors"
  std::function<Problem(const GoldenCase&)> make;
};

// One size of a row op, as add_rows gives it to the function that makes the problem.
struct RowCase {
  DType dtype;
  int64_t rows, columns;
  Layout layout = Layout::contiguous;
};
using MakeRowCase = std::function<Problem(const RowCase&)>;
using RowSizes = std::vector<std::pair<int64_t, int64_t>>;  // rows and columns

class Registry {
 public:
  void add(Case c) { cases_.push_back(std::move(c)); }
  // Each size in f32 and bf16, contiguous ("3x257") and with padded rows ("3x257/padded").
  void add_rows(const std::string& op, const std::string& variant, const RowSizes& sizes, const MakeRowCase& make);
  // A case that is timed by `weft bench`, at a size that matters; its reference is never run.
  void bench(Case c) { benches_.push_back(std::move(c)); }
  void bench_rows(const std::string& op, const std::string& variant, const RowSizes& sizes, const MakeRowCase& make);
  // The same for a GPU, at a size that fills one.
  void bench_gpu(Case c) { gpu_benches_.push_back(std::move(c)); }
  // A size at which bytes are counted on a simulated GPU: large enough to say something, or odd. Neither checked nor timed.
  void count(Case c) { counted_.push_back(std::move(c)); }
  void count_rows(const std::string& op, const std::string& variant, const RowSizes& sizes, const MakeRowCase& make);
  void rejects(std::string op, std::string name, std::function<void(Device&)> attempt) {
    rejections_.push_back({std::move(op), std::move(name), std::move(attempt)});
  }
  void golden(GoldenSource source) { golden_.push_back(std::move(source)); }

  const std::vector<Case>& cases() const { return cases_; }
  const std::vector<Case>& benches() const { return benches_; }
  const std::vector<Case>& gpu_benches() const { return gpu_benches_; }
  const std::vector<Case>& counted() const { return counted_; }
  const std::vector<Rejection>& rejections() const { return rejections_; }
  const std::vector<GoldenSource>& golden_sources() const { return golden_; }

 private:
  std::vector<Case> cases_, benches_, gpu_benches_, counted_;
  std::vector<Rejection> rejections_;
  std::vector<GoldenSource> golden_;
};

// Every op's specs, in the order of the ops' CMake list (generated).
void add_all_specs(Registry& registry);

// "3x257"
std::string dims(std::initializer_list<int64_t> extents);

}  // namespace weft::spec
