#include "weft/backends/metal/sim/threadgroup.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/backends/metal/sim/runtime.h"
#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

constexpr uint64_t kMostSpins = 50'000'000;  // atomic operations of one thread between two waits

thread_local Threadgroup* stack_owner = nullptr;

bool same(const weft_sim::Site& a, const weft_sim::Site& b) {
  return a.line == b.line && a.column == b.column && a.way == b.way && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}
bool earlier(const weft_sim::Site& a, const weft_sim::Site& b) { return a.line != b.line ? a.line < b.line : a.column < b.column; }
// mem_flags: 1 device memory, 2 threadgroup memory
void pass_barrier(std::array<uint32_t, 2>& epoch, unsigned memory_flags) {
  epoch[size_t(Memory::device)] += memory_flags & 1;
  epoch[size_t(Memory::threadgroup)] += memory_flags >> 1 & 1;
}
std::string place(const weft_sim::Site& site) { return site.line ? join(site.file, ":", site.line) : std::string(site.file); }

}  // namespace

Threadgroup::Threadgroup() : queue_(2048) {}

void Threadgroup::run(DispatchRun& launch, uint64_t index) {
  begin(launch, index);
  const RunningThreadgroup running(this);
  stack_owner = this;
  do {
    while (anyone_ready() && !aborted_) resume(threads_[size_t(pop())], &scheduler_);
    current_ = nullptr;
  } while (!aborted_ && !launch.stopped && unblock());
  // Threads that never finished leave their stacks in mid-execution.
  if (aborted_ || done_ != count_) reset_stacks(stacks_.count());
  counters_.threads += count_;
}

void Threadgroup::begin(DispatchRun& launch, uint64_t index) {
  launch_ = &launch;
  count_ = launch.threads;
  at_barrier_ = done_ = 0;
  aborted_ = false;
  spins_ = 0;
  queue_begin_ = queue_end_ = 0;
  random_ = (launch.seed + 1) * 0x9e3779b97f4a7c15u ^ (index + 1) * 0xbf58476d1ce4e5b9u;
  if (stacks_.count() < count_) reset_stacks(count_);
  if (int(threads_.size()) < count_) threads_.resize(size_t(count_));

  variables_.assign(size_t(launch.module->table().variable_count), {});
  arena_used_ = gap();
  threadgroup_used_ = 0;
  combining_ = false;
  if (launch.shadow) launch.shadow->begin_group();
  dynamic_[0] = launch.threadgroup_bytes ? allocate(uint64_t(launch.threadgroup_bytes), 16, "[[threadgroup(0)]]") : nullptr;

  weft_sim::Thread& first = threads_[0].info;
  first = {};
  const uint64_t x = launch.groups[0], y = launch.groups[1];
  const uint32_t at[3] = {uint32_t(index % x), uint32_t(index / x % y), uint32_t(index / x / y)};
  for (int d = 0; d < 3; ++d) {
    first.group[d] = at[d];
    first.groups[d] = launch.groups[size_t(d)];
    first.group_size[d] = d == 0 ? unsigned(count_) : 1;
    first.grid[d] = first.groups[d] * first.group_size[d];
    first.position_in_grid[d] = first.group[d] * first.group_size[d];
  }
  first.simdgroups = unsigned(count_ + weft_sim::kLanes - 1) / weft_sim::kLanes;
  first.bindings = &launch.bindings;
  first.threadgroup = dynamic_;
  begin_threads(index);
}

void Threadgroup::begin_threads(uint64_t index) {
  const weft_sim::Thread first = threads_[0].info;
  simdgroups_.resize(first.simdgroups);
  for (int s = 0; s < int(first.simdgroups); ++s)
    simdgroups_[size_t(s)] = {s * weft_sim::kLanes, std::min(weft_sim::kLanes, count_ - s * weft_sim::kLanes), 0, 0};
  order_.resize(size_t(count_));
  for (int i = 0; i < count_; ++i) {
    SimThread& t = threads_[size_t(i)];
    t = SimThread{};
    t.info = first;
    t.info.position_in_grid[0] += unsigned(i);
    t.info.position_in_group[0] = t.info.index = unsigned(i);
    t.info.lane = unsigned(i % weft_sim::kLanes);
    t.info.simdgroup = unsigned(i / weft_sim::kLanes);
    t.toucher = {uint32_t(index), uint32_t(i), {}, {}};
    order_[size_t(i)] = uint16_t(i);
  }
  if (launch_->random) {
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  }
  for (uint16_t i : order_) push(i);
}

void Threadgroup::reset_stacks(int count) {
  if (stacks_.count() < count) stacks_.reserve(count);
  stack_pointers_.resize(size_t(stacks_.count()));
  idle_stacks_.clear();
  for (int i = stacks_.count() - 1; i >= 0; --i) {
    stack_pointers_[size_t(i)] = stacks_.prepare(i, stack_main);
    idle_stacks_.push_back(i);
  }
}

// Entry of a stack: each iteration runs one simulated thread from start to end.
void Threadgroup::stack_main() {
  for (;;) {
    Threadgroup& group = *stack_owner;
    group.launch_->kernel->entry(&group.current_->info);
    stack_owner->finish();
  }
}

// Switches to that thread; *from receives the current stack pointer.
void Threadgroup::resume(SimThread& thread, void** from) {
  current_ = &thread;
  void* to = thread.stack_pointer;
  if (thread.state == State::fresh) {
    thread.stack = idle_stacks_.back();
    idle_stacks_.pop_back();
    thread.state = State::ready;
    to = stack_pointers_[size_t(thread.stack)];
  }
  weft_sim_switch_stack(from, to);
}

void Threadgroup::wait() {
  SimThread* me = current_;
  spins_ = 0;
  if (!anyone_ready()) {
    weft_sim_switch_stack(&me->stack_pointer, scheduler_);
  } else {
    resume(threads_[size_t(pop())], &me->stack_pointer);
  }
}

void Threadgroup::finish() {
  SimThread* me = current_;
  const int stack = me->stack;
  me->state = State::done;
  spins_ = 0;
  ++done_;
  Simdgroup& simdgroup = simdgroups_[me->info.simdgroup];
  ++simdgroup.done;
  try_release(simdgroup);
  if (anyone_ready()) {
    SimThread& next = threads_[size_t(pop())];
    if (next.state == State::fresh) {
      next.stack = stack;
      next.state = State::ready;
      current_ = &next;
      return;
    }
    idle_stacks_.push_back(stack);
    resume(next, &stack_pointers_[size_t(stack)]);
  } else {
    idle_stacks_.push_back(stack);
    weft_sim_switch_stack(&stack_pointers_[size_t(stack)], scheduler_);
  }
}

void Threadgroup::threadgroup_barrier(unsigned memory_flags, weft_sim::Site site) {
  current_->state = State::at_barrier;
  current_->site = site;
  current_->memory_flags = memory_flags;
  ++at_barrier_;
  wait();
}

void Threadgroup::simdgroup_barrier(unsigned memory_flags, weft_sim::Site site) {
  current_->memory_flags = memory_flags;
  simd(nullptr, nullptr, "simdgroup_barrier", site);
}

void Threadgroup::simd(weft_sim::Combine combine, void* slot, const char* function, weft_sim::Site site) {
  SimThread* me = current_;
  me->state = State::in_simdgroup;
  me->site = site;
  me->combine = combine;
  me->slot = slot;
  me->function = function;
  Simdgroup& simdgroup = simdgroups_[me->info.simdgroup];
  ++simdgroup.waiting;
  if (try_release(simdgroup)) return;
  wait();
  if (me->leads) release(simdgroup, std::exchange(me->leads, 0u));
}

// All lanes that still run have arrived at one place.
bool Threadgroup::try_release(Simdgroup& simdgroup) {
  if (simdgroup.waiting == 0 || simdgroup.waiting + simdgroup.done != simdgroup.count) return false;
  unsigned lanes = 0;
  const SimThread* first = nullptr;
  for (int i = 0; i < simdgroup.count; ++i) {
    const SimThread& t = threads_[size_t(simdgroup.first + i)];
    if (t.state != State::in_simdgroup) continue;
    if (!first) first = &t;
    if (t.combine != first->combine || !same(t.site, first->site)) return false;
    lanes |= 1u << i;
  }
  // The lane that arrived last is running, unless it has ended: then the first waiting lane does the work.
  if (current_->state == State::in_simdgroup) {
    release(simdgroup, lanes);
  } else {
    SimThread& leader = threads_[size_t(first - threads_.data())];
    leader.leads = lanes;
    leader.state = State::ready;
    push(int(first - threads_.data()));
  }
  return true;
}

// Runs on the stack of one of the lanes: that lane continues, the others become ready.
void Threadgroup::release(Simdgroup& simdgroup, unsigned lanes) {
  void* slots[weft_sim::kLanes] = {};
  for (int i = 0; i < simdgroup.count; ++i) {
    if (lanes >> i & 1) slots[i] = threads_[size_t(simdgroup.first + i)].slot;
  }
  if (current_->combine) {
    combining_ = true;  // it reads from the stacks of other lanes
    current_->combine(slots, lanes);
    combining_ = false;
  }
  const int start = launch_->random ? int(random() % weft_sim::kLanes) : 0;
  for (int k = 0; k < weft_sim::kLanes; ++k) {
    const int i = (start + k) % weft_sim::kLanes;
    if (!(lanes >> i & 1)) continue;
    SimThread& t = threads_[size_t(simdgroup.first + i)];
    t.state = State::ready;
    if (!t.combine) pass_barrier(t.toucher.simd_epoch, t.memory_flags);
    --simdgroup.waiting;
    if (&t != current_) push(simdgroup.first + i);
  }
}

bool Threadgroup::unblock() {
  if (done_ == count_) return false;
  if (at_barrier_ + done_ == count_) return open_barrier();
  part_lanes();
  return true;
}

bool Threadgroup::open_barrier() {
  const SimThread* first = nullptr;
  for (int i = 0; i < count_; ++i) {
    const SimThread& t = threads_[size_t(i)];
    if (t.state != State::at_barrier) continue;
    if (!first) first = &t;
    if (!same(t.site, first->site)) {
      const bool one_line = first->site.line == t.site.line && first->site.column == t.site.column;
      report(t, join("divergent threadgroup_barrier: thread ", first->info.index, " waits at ", place(first->site), ", thread ",
                     t.info.index, " at ", place(t.site), one_line ? ", reached by another call" : ""));
      return false;
    }
  }
  if (done_ > 0) {
    report(*first, join("divergent threadgroup_barrier at ", place(first->site), ": ", at_barrier_, " of ", count_, " threads reached it, ",
                        done_, " have returned"));
    return false;
  }
  ++counters_.barriers;
  at_barrier_ = 0;
  if (launch_->random) {
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  }
  for (uint16_t i : order_) {
    threads_[i].state = State::ready;
    pass_barrier(threads_[i].toucher.epoch, threads_[i].memory_flags);
    push(i);
  }
  return true;
}

// Lanes of a simdgroup wait at different places, or some of them at a barrier.
void Threadgroup::part_lanes() {
  for (Simdgroup& simdgroup : simdgroups_) {
    SimThread* first = nullptr;
    unsigned lanes = 0;
    for (int i = 0; i < simdgroup.count; ++i) {
      SimThread& t = threads_[size_t(simdgroup.first + i)];
      if (t.state == State::in_simdgroup && (!first || earlier(t.site, first->site))) first = &t;
    }
    if (!first) continue;
    for (int i = 0; i < simdgroup.count; ++i) {
      const SimThread& t = threads_[size_t(simdgroup.first + i)];
      if (t.state == State::in_simdgroup && t.combine == first->combine && same(t.site, first->site)) lanes |= 1u << i;
    }
    first->leads = lanes;
    first->state = State::ready;
    push(int(first - threads_.data()));
  }
}

void Threadgroup::inactive(unsigned lane, unsigned from) {
  if (!launch_->shadow) return;
  fail_at(join(current_->function, ": lane ", lane, " reads lane ", from,
               from < unsigned(weft_sim::kLanes) ? ", which is not active" : ", expected 0 to 31"),
          current_->site);
}

void Threadgroup::spin() {
  if (++spins_ > kMostSpins) fail_at("a thread spins on atomics; threads of a group are not guaranteed to run concurrently", {"", 0, 0});
}

void Threadgroup::fail_at(const std::string& what, weft_sim::Site site) {
  report(*current_, *site.file ? join(place(site), ": ", what) : what);
  abandon();
}

void Threadgroup::abandon() {
  aborted_ = true;
  void* abandoned = nullptr;
  weft_sim_switch_stack(&abandoned, scheduler_);
  __builtin_unreachable();
}

void Threadgroup::report(const SimThread& thread, const std::string& what) {
  aborted_ = true;
  launch_->fault(join(what, " (", who(thread), ")"));
}

std::string Threadgroup::who(const SimThread& thread) const {
  const auto& g = thread.info.group;
  return join("kernel ", launch_->kernel->name, ", group ", g[0], " ", g[1], " ", g[2], ", thread ", thread.info.index);
}

uint64_t Threadgroup::random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

Counters Threadgroup::take_counters() { return std::exchange(counters_, {}); }

}  // namespace weft::metal::sim
