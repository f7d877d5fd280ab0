#include "weft/order/one_order.h"

#include <algorithm>
#include <functional>
#include <random>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/checksum.h"
#include "weft/order/paths.h"

namespace weft {
namespace {

using namespace order;

// Mostly short sequences, some of the full length. Half of them share a prefix with another one.
Sequences random_sequences(std::mt19937_64& random, size_t count, int64_t length, int64_t vocabulary) {
  Sequences sequences;
  for (size_t s = 0; s < count; ++s) {
    const int64_t most = random() % 4 == 0 ? length : std::max<int64_t>(2, length / 2);
    const auto n = s == 0 ? size_t(length) : size_t(2 + random() % uint64_t(most - 1));
    auto& ids = sequences.emplace_back(n);
    for (int32_t& id : ids) id = int32_t(random() % uint64_t(vocabulary));
    if (s == 0 || random() % 2 == 0) continue;
    const auto& other = sequences[random() % s];
    std::copy_n(other.begin(), random() % std::min(n, other.size()), ids.begin());
  }
  return sequences;
}

// Runs a group of sequences on every path. The first path is training with gradients (evaluation for int8 weights); the others must have
// the same bits.
class GroupCheck {
 public:
  GroupCheck(Model& model, const OneOrderOptions& options, const Sequences& sequences, uint64_t seed)
      : model_(model), options_(options), sequences_(sequences), seed_(seed) {}

  void run(OneOrderReport& report) {
    using Training = Paths::Training;
    const auto training = [this](Training kind, uint64_t seed) {
      return [=, this](const Paths& p) { return p.training(kind, options_.pass_tokens, seed); };
    };
    const bool trains = !model_.trainable_parameters().empty();
    base_ = training(trains ? Training::gradients : Training::evaluation, 0);
    expected_ = base_(Paths(model_, sequences_));
    for (const auto& sequence : expected_) {
      const std::vector<RowBits> bits = bits_of(sequence);
      report.digest = xxh64(std::as_bytes(std::span(bits)), report.digest);
    }
    if (trains) {
      compare("training in other micro-batches", training(Training::gradients, seed_ + 1), report);
      compare("training with recomputation", training(Training::recomputed, seed_ + 2), report);
    }
    compare("evaluation", training(Training::evaluation, seed_ + 3), report);
    compare("prompts read whole", [this](const Paths& p) { return p.prompts(options_.batch, seed_ + 4); }, report);
    compare("decoding alone", [this](const Paths& p) { return p.decoding_alone(sequences_.size() - 1, seed_ + 5); }, report);
    report.positions += compare("decoding in batches", [this](const Paths& p) { return p.decoding(options_.batch, seed_ + 6); }, report);
  }

 private:
  using Path = std::function<PositionBits(const Paths&)>;

  static std::vector<RowBits> bits_of(const std::vector<std::optional<RowBits>>& rows) {
    std::vector<RowBits> bits;
    for (const auto& row : rows) bits.push_back(row.value_or(RowBits{}));
    return bits;
  }

  // Returns the number of positions compared.
  int64_t compare(const char* name, const Path& path, OneOrderReport& report) {
    const PositionBits rows = path(Paths(model_, sequences_));
    OrderDifference difference{.path = name};
    std::optional<std::pair<size_t, size_t>> first;  // sequence and position
    for (size_t s = 0; s < rows.size(); ++s)
      for (size_t t = 0; t < rows[s].size(); ++t) {
        if (!rows[s][t]) continue;
        ++difference.of;
        if (rows[s][t] == expected_[s][t]) continue;
        ++difference.positions;
        if (!first || t < first->second) first = {s, t};
      }
    if (first) {
      difference.first = join("sequence ", first->first, ", ", origin(path, first->first, first->second));
      report.differences.push_back(difference);
    }
    return difference.of;
  }

  // Runs both paths again and compares the intermediate results of the sequence.
  std::string origin(const Path& path, size_t sequence, size_t position) const {
    const auto traced = [&](const Path& run, Trace& trace) {
      Paths paths(model_, sequences_);
      paths.trace(&trace);
      return run(paths);
    };
    std::optional<Trace> one(std::in_place, model_, sequence);
    traced(base_, *one);
    model_.observe({});
    Trace other(model_, sequence);
    const PositionBits again = traced(path, other);
    if (const auto found = one->first_difference(other)) return *found;
    if (again[sequence][position] == expected_[sequence][position])
      return join("position ", position, ": not when the launches are run one by one (a replayed graph differs)");
    return join("position ", position, ": after the last layer, logits");
  }

  Model& model_;
  const OneOrderOptions& options_;
  const Sequences& sequences_;
  uint64_t seed_;
  Path base_;
  PositionBits expected_;
};

}  // namespace

OneOrderReport check_one_order(Model& model, const OneOrderOptions& options) {
  constexpr const char* kWhere = "one_order";
  const int64_t context = model.config().max_positions;
  const int64_t length = options.length ? options.length : std::min<int64_t>(context, 160);
  check(length >= 2 && length <= context, kWhere, "a length of ", length, " tokens, expected 2 to the model's context of ", context);
  check(options.tokens >= 1 && options.batch >= 1 && options.pass_tokens >= 1, kWhere, "got ", options.tokens, " tokens, batch ",
        options.batch, " and passes of ", options.pass_tokens, " tokens, expected 1 or more");
  std::mt19937_64 random(options.seed);
  OneOrderReport report;
  while (report.positions < options.tokens && report.differences.empty()) {
    report_progress({.what = "token", .done = report.positions, .total = options.tokens});
    const Sequences sequences =
        random_sequences(random, size_t(std::max<int64_t>(3, 2 * options.batch)), length, model.config().vocab_size);
    GroupCheck(model, options, sequences, random() | 1).run(report);
  }
  return report;
}

}  // namespace weft
