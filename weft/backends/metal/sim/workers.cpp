#include "weft/backends/metal/sim/workers.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "weft/backends/metal/sim/fiber.h"
#include "weft/backends/metal/sim/threadgroup.h"

namespace weft::metal::sim {
namespace {

// A launch is abandoned after this many seconds in which none of its groups has finished.
int patience() {
  const char* setting = std::getenv("WEFT_METAL_SIM_WATCHDOG");
  const int seconds = setting ? std::atoi(setting) : 0;
  return seconds > 0 ? seconds : 120;
}

void add(Counters& sum, const Counters& more) {
  sum.threads += more.threads;
  sum.barriers += more.barriers;
  sum.device_read += more.device_read;
  sum.device_written += more.device_written;
  sum.threadgroup_bytes += more.threadgroup_bytes;
  sum.matrix_multiply_adds += more.matrix_multiply_adds;
}

}  // namespace

struct Workers::Shared {
  std::mutex mutex;
  std::condition_variable work, idle;
  std::shared_ptr<DispatchRun> launch;
  std::vector<uint32_t> order;        // order of the groups; empty: ascending
  std::atomic<uint64_t> next{0};      // next group
  std::atomic<uint64_t> finished{0};  // finished groups
  uint64_t generation = 0;            // number of launches
  int wanted = 0, busy = 0;
  bool closing = false, lost = false;
  bool flush_to_zero = false;
  Counters counters;
  std::vector<std::thread> threads;

  void main();
  void shuffle();
};

void Workers::Shared::main() {
  const FlushToZero mode(flush_to_zero);
  Threadgroup group;
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [&] { return closing || (generation != seen && wanted > 0); });
    if (closing) return;
    seen = generation;
    --wanted;
    const std::shared_ptr<DispatchRun> mine = launch;
    lock.unlock();
    for (uint64_t i; !mine->stopped && (i = next++) < mine->group_count();) {
      group.run(*mine, order.empty() ? i : order[i]);
      ++finished;
    }
    lock.lock();
    add(counters, group.take_counters());
    if (--busy == 0) idle.notify_all();
  }
}

void Workers::Shared::shuffle() {
  order.clear();
  const uint64_t count = launch->group_count();
  if (!launch->random || count > 1u << 24) return;
  order.resize(count);
  for (uint64_t i = 0; i < count; ++i) order[i] = uint32_t(i);
  uint64_t state = launch->seed * 0x9e3779b97f4a7c15u + 1;
  for (uint64_t i = count; i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(state >> 33) % i]);
  }
}

Workers::Workers(int count, bool flush_to_zero) : shared_(std::make_shared<Shared>()) {
  shared_->flush_to_zero = flush_to_zero;
  for (int i = 0; i < count; ++i) shared_->threads.emplace_back([shared = shared_] { shared->main(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closing = true;
  }
  shared_->work.notify_all();
  for (std::thread& thread : shared_->threads) {
    if (shared_->lost)
      thread.detach();
    else
      thread.join();
  }
  shared_->threads.clear();  // an abandoned thread keeps `shared` alive, not itself
}

bool Workers::run(const std::shared_ptr<DispatchRun>& launch) {
  Shared& s = *shared_;
  std::unique_lock lock(s.mutex);
  if (s.lost) return false;
  s.launch = launch;
  s.shuffle();
  s.next = s.finished = 0;
  s.wanted = s.busy = int(std::min<uint64_t>(s.threads.size(), launch->group_count()));
  ++s.generation;
  s.work.notify_all();
  // Counts seconds that this thread saw pass: a program that was suspended for a while is not at fault.
  int idle_seconds = 0;
  for (uint64_t before = 0; !s.idle.wait_for(lock, std::chrono::seconds(1), [&] { return s.busy == 0; });) {
    idle_seconds = s.finished == before ? idle_seconds + 1 : 0;
    before = s.finished;
    if (idle_seconds < patience()) continue;
    launch->stopped = true;
    s.lost = true;
    return false;
  }
  s.launch.reset();
  return true;
}

Counters Workers::take_counters() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->counters, {});
}

}  // namespace weft::metal::sim
