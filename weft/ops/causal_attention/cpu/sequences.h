// Sequences of one launch: the documents, or all tokens of each of B sequences. Each is computed as if it were alone.
#pragma once

#include <algorithm>
#include <vector>

#include "weft/tile/cpu/heads.h"

namespace weft::cpu {

struct Sequence {
  int64_t first, tokens;
};

// The documents that are not empty, or one sequence of T tokens if there are none given. Lengths that are not cumulative are reported to
// the stream; then there are no sequences.
inline std::vector<Sequence> sequences_of(Stream& stream, const View& documents, int64_t T) {
  if (!documents) return {{0, T}};
  const int32_t* ends = data<int32_t>(documents);
  const int64_t last = documents.numel() - 1;
  const auto refuse = [&](int64_t i, const std::string& expected) {
    stream.report(join("documents[", i, "] is ", ends[i], ", expected ", expected));
    return std::vector<Sequence>();
  };
  if (ends[0] != 0) return refuse(0, "0");
  std::vector<Sequence> sequences;
  for (int64_t i = 1; i <= last; ++i) {
    if (ends[i] < ends[i - 1] || ends[i] > T) return refuse(i, join(ends[i - 1], " to ", T));
    if (ends[i] > ends[i - 1]) sequences.push_back({ends[i - 1], ends[i] - ends[i - 1]});
  }
  if (ends[last] != T) return refuse(last, join("the number of tokens, ", T));
  return sequences;
}

// The operand from token `first` on.
template <class T>
Heads<T> from_token(Heads<T> heads, int64_t first) {
  heads.at += first * heads.time;
  return heads;
}

// The work of several sequences as one list of tasks. Work: tasks(), the number of its tasks.
template <class Work>
class WorkList {
 public:
  void add(Work work) {
    tasks_ += work.tasks();
    work_.push_back(std::move(work));
    ends_.push_back(tasks_);
  }
  int64_t tasks() const { return tasks_; }
  const std::vector<Work>& work() const { return work_; }
  std::vector<Work>& work() { return work_; }
  // Calls f(work, its task).
  template <class F>
  void at(int64_t task, F f) const {
    const size_t i = size_t(std::upper_bound(ends_.begin(), ends_.end(), task) - ends_.begin());
    f(work_[i], task - (ends_[i] - work_[i].tasks()));
  }

 private:
  std::vector<Work> work_;
  std::vector<int64_t> ends_;
  int64_t tasks_ = 0;
};

}  // namespace weft::cpu
