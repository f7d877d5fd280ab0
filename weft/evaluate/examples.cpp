#include "weft/evaluate/examples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr size_t kTogether = 4096;  // sequences in memory at once, sorted by length
constexpr int64_t kMaxTokens = 256;

struct Question {
  const TaskItem* item;
  const std::string* prompt;  // with few-shot examples
};

// Sequences to score and the sums that their log-probabilities are added to.
class Scorer {
 public:
  Scorer(const Model& model, const TaskOptions& options)
      : model_(model), options_{.batch = options.batch, .pass_tokens = options.pass_tokens} {}

  void add(ScoredPair pair, double* sum, const std::string& where) {
    pairs_.push_back(std::move(pair));
    into_.push_back({sum, &where});
    if (pairs_.size() == kTogether) flush();
  }

  // Sequences of about one length share a pass: the longest first, so that memory is taken once.
  void flush() {
    std::vector<size_t> order(pairs_.size());
    std::iota(order.begin(), order.end(), size_t(0));
    const auto length = [&](size_t i) { return pairs_[i].prompt.size() + pairs_[i].completion.size(); };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return length(a) > length(b); });
    std::vector<ScoredPair> sorted;
    for (size_t i : order) sorted.push_back(std::move(pairs_[i]));
    const auto scores = score(model_, sorted, options_);
    std::vector<double> sums(pairs_.size());
    for (size_t i = 0; i < order.size(); ++i) sums[order[i]] = std::accumulate(scores[i].begin(), scores[i].end(), 0.0);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!std::isfinite(sums[i])) fail(ErrorCode::device_fault, *into_[i].where, "has a log-probability of ", sums[i]);
      *into_[i].sum += sums[i];
    }
    pairs_.clear();
    into_.clear();
  }

 private:
  struct Into {
    double* sum;
    const std::string* where;
  };
  const Model& model_;
  ScoreOptions options_;
  std::vector<ScoredPair> pairs_;
  std::vector<Into> into_;
};

std::vector<EncodedPair> encoded_choices(const TaskTokens& tokens, const Question& question, int64_t context) {
  std::vector<EncodedPair> pairs;
  for (const std::string& choice : question.item->choices)
    pairs.push_back(tokens.pair(*question.prompt, question.item->delimiter + choice, context, question.item->where));
  return pairs;
}

void score_choices(const TaskTokens& tokens, const std::vector<Question>& questions, int64_t context, Scorer& scorer,
                   std::vector<ItemResult>& results) {
  for (size_t i = 0; i < questions.size(); ++i) {
    auto pairs = encoded_choices(tokens, questions[i], context);
    results[i].choices.resize(pairs.size());
    for (size_t c = 0; c < pairs.size(); ++c) {
      results[i].choices[c].tokens = int64_t(pairs[c].ids.completion.size());
      results[i].truncated |= pairs[c].truncated;
      scorer.add(std::move(pairs[c].ids), &results[i].choices[c].log_probability, questions[i].item->where);
    }
  }
  scorer.flush();
}

void score_texts(const TaskTokens& tokens, const std::vector<Question>& questions, int64_t context, Scorer& scorer,
                 std::vector<ItemResult>& results) {
  for (size_t i = 0; i < questions.size(); ++i)
    for (ScoredPair& window : tokens.windows(*questions[i].prompt, context, questions[i].item->where)) {
      results[i].tokens += int64_t(window.completion.size());
      scorer.add(std::move(window), &results[i].log_probability, questions[i].item->where);
    }
  scorer.flush();
}

// How a continuation ends; items that end alike are generated together.
struct Ending {
  std::vector<std::string> stop;
  int64_t max_tokens;
  auto operator<=>(const Ending&) const = default;
};

Ending ending_of(const TaskItem& item, const TaskOptions& options, int64_t context) {
  Ending ending{item.stop.empty() ? options.stop : item.stop, item.max_tokens > 0 ? item.max_tokens : options.max_tokens};
  if (ending.max_tokens == 0) ending.max_tokens = std::max<int64_t>(1, std::min(kMaxTokens, context / 2));
  if (ending.max_tokens >= context)
    fail(ErrorCode::bad_file, item.where, "is to be continued by ", ending.max_tokens, " tokens, but the context is ", context,
         ": there is no room for a prompt");
  return ending;
}

void generate(const Model& model, const TaskTokens& tokens, const std::vector<Question>& questions, const TaskOptions& options,
              int64_t context, std::vector<ItemResult>& results) {
  std::map<Ending, std::vector<size_t>> alike;
  for (size_t i = 0; i < questions.size(); ++i) alike[ending_of(*questions[i].item, options, context)].push_back(i);
  for (const auto& [ending, members] : alike) {
    std::vector<std::vector<int32_t>> prompts;
    for (size_t i : members) {
      EncodedPair encoded = tokens.prompt(*questions[i].prompt, context - ending.max_tokens, questions[i].item->where);
      results[i].truncated = encoded.truncated;
      prompts.push_back(std::move(encoded.ids.prompt));
    }
    Generator generator(model, {.max_tokens = ending.max_tokens, .eos_ids = tokens.end_ids(), .stop = ending.stop, .batch = options.batch},
                        tokens.texts());
    std::vector<Completion> completions = generator.run(prompts);
    for (size_t k = 0; k < members.size(); ++k) {
      results[members[k]].generated = std::move(completions[k].text);
      results[members[k]].tokens = int64_t(completions[k].ids.size());
    }
  }
}

int64_t context_of(const TaskOptions& options, int64_t most) {
  check(options.context >= 0 && options.context <= most, "eval", "--context is ", options.context, ", expected 1 to the model's ", most);
  return options.context > 0 ? options.context : most;
}

}  // namespace

int64_t item_count(const Task& task, const TaskOptions& options) {
  check(options.limit >= 0, "eval", "--limit is ", options.limit, ", expected 0 (all) or more");
  const auto all = int64_t(task.items.size());
  return options.limit > 0 ? std::min(options.limit, all) : all;
}

int64_t check_items(const TaskTokens& tokens, const Task& task, const TaskOptions& options, int64_t most) {
  const int64_t context = context_of(options, most);
  const std::vector<std::string> prompts = with_shots(task, options.shots);
  int64_t longest = 0;
  size_t length = 0;
  const auto longer = [&](const ScoredPair& pair) {
    const bool is = pair.prompt.size() + pair.completion.size() > length;
    if (is) length = pair.prompt.size() + pair.completion.size();
    return is;
  };
  for (int64_t i = 0; i < item_count(task, options); ++i) {
    const Question question{&task.items[size_t(i)], &prompts[size_t(i)]};
    const TaskItem& item = *question.item;
    switch (task.kind) {
      case TaskKind::choices:
        for (const EncodedPair& pair : encoded_choices(tokens, question, context))
          if (longer(pair.ids)) longest = i;
        break;
      case TaskKind::target:
        if (longer(tokens.prompt(*question.prompt, context - ending_of(item, options, context).max_tokens, item.where).ids)) longest = i;
        break;
      case TaskKind::text:
        for (const ScoredPair& window : tokens.windows(*question.prompt, context, item.where))
          if (longer(window)) longest = i;
        break;
    }
  }
  return longest;
}

std::vector<ItemResult> evaluate_items(const Model& model, const TaskTokens& tokens, const Task& task, const TaskOptions& options,
                                       int64_t first, int64_t stride) {
  check(options.batch >= 1, "eval", "--batch is ", options.batch, ", expected 1 or more");
  const int64_t context = context_of(options, model.config().max_positions), count = item_count(task, options);
  const std::vector<std::string> prompts = with_shots(task, options.shots);
  std::vector<Question> questions;
  for (int64_t i = first; i < count; i += stride) questions.push_back({&task.items[size_t(i)], &prompts[size_t(i)]});
  std::vector<ItemResult> results(questions.size());
  const NoGrad no_grad;
  Scorer scorer(model, options);
  switch (task.kind) {
    case TaskKind::choices: score_choices(tokens, questions, context, scorer, results); break;
    case TaskKind::target: generate(model, tokens, questions, options, context, results); break;
    case TaskKind::text: score_texts(tokens, questions, context, scorer, results); break;
  }
  return results;
}

}  // namespace weft
