// Messages of device memory between ranks, checked value by value:   mpirun -n 4 device_messages cuda|cpu [TROUBLE]
//
// TROUBLE is what the last rank does after a first exchange, with a timeout of 5 seconds for the others:
//   stops      stops itself with SIGSTOP
//   is-killed  kills itself with SIGKILL
//   is-late    sleeps for a minute
//
// Exit status: 0 passed, 1 failed, 77 there is no such device, or no NCCL for GPUs.
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/comm/launch.h"
#include "weft/comm/on_device.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/operators.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul/matmul.h"

namespace weft {
namespace {

constexpr int kSkipped = 77;

// The values of message `number` between two ranks; exact in f32.
float value(int from, int to, int number, int64_t i) { return float(((from * 31 + to) * 17 + number) * 1000 + int(i % 997)); }

std::vector<float> values(int from, int to, int number, int64_t count) {
  std::vector<float> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(value(from, to, number, i));
  return all;
}

class Ranks {
 public:
  Ranks(Communicator& communicator, Device& device) : comm(communicator), device(device), stream(device.stream()) {}

  void expect(bool ok, const std::string& what) {
    if (!ok) std::fprintf(stderr, "FAILED rank %d: %s\n", comm.rank(), what.c_str());
    failed += !ok;
  }
  void expect_message(const Tensor& got, int from, int number, const char* what) {
    expect(got.to_host<float>() == values(from, comm.rank(), number, got.numel()), join(what, ": message ", number, " of rank ", from));
  }
  std::vector<int> others() const {
    std::vector<int> all;
    for (int other = 0; other < comm.size(); ++other)
      if (other != comm.rank()) all.push_back(other);
    return all;
  }
  Tensor outgoing(int to, int number, int64_t count) { return Tensor::from_host(device, {count}, values(comm.rank(), to, number, count)); }

  // An all-to-all under way; it holds its memory.
  struct AllToAll {
    std::vector<Tensor> sent, received;
    std::unique_ptr<Transfer> transfer;
  };
  AllToAll start_all(int number, int64_t count) {
    AllToAll all;
    std::vector<Outgoing> send;
    std::vector<Incoming> receive;
    for (const int other : others()) {
      all.sent.push_back(outgoing(other, number, count));
      all.received.push_back(full(device, {count}, -1));
      send.push_back({other, all.sent.back().view()});
      receive.push_back({other, all.received.back().mut_view()});
    }
    all.transfer = comm.start(stream, send, receive);
    return all;
  }
  void expect_all(const AllToAll& all, int number, const char* what) {
    for (size_t i = 0; i < all.received.size(); ++i) expect_message(all.received[i], others()[i], number, what);
  }

  void sizes();
  void several_at_once();
  void many_to_one_rank();
  void parts_of_tensors();
  void order_with_kernels();
  void memory_is_reused();
  void waiting_is_counted();
  void host_memory();

  Communicator& comm;
  Device& device;
  Stream& stream;
  int failed = 0;
};

void Ranks::sizes() {
  int number = 0;
  for (const int64_t count : {0, 1, 3, 1000, 65536, (1 << 20) + 7}) {
    AllToAll all = start_all(++number, count);
    all.transfer->wait();
    expect_all(all, number, "sizes");
  }
}

// Eight transfers under way, waited for from the last to the first; the eighth's destructor waits.
void Ranks::several_at_once() {
  std::vector<AllToAll> all;
  for (int i = 0; i < 8; ++i) all.push_back(start_all(100 + i, 10000 + i));
  all[7].transfer.reset();
  for (int i = 6; i >= 0; --i) all[size_t(i)].transfer->wait();
  for (int i = 0; i < 8; ++i) expect_all(all[size_t(i)], 100 + i, "several at once");
}

// Ranks above 0 send three messages of different lengths to rank 0, and nothing to each other.
void Ranks::many_to_one_rank() {
  std::vector<Tensor> memory;
  std::vector<Outgoing> send;
  std::vector<Incoming> receive;
  for (int i = 0; i < 3; ++i) {
    for (int other = 1; comm.first() && other < comm.size(); ++other) {
      memory.push_back(full(device, {100 + i}, -1));
      receive.push_back({other, memory.back().mut_view()});
    }
    if (comm.first()) continue;
    memory.push_back(outgoing(0, 200 + i, 100 + i));
    send.push_back({0, memory.back().view()});
  }
  comm.start(stream, send, receive)->wait();
  for (size_t i = 0; comm.first() && i < receive.size(); ++i)
    expect_message(memory[i], receive[i].from, 200 + int(i) / (comm.size() - 1), "many to one");
}

// A part of a tensor, at an offset that only its elements are aligned to, in bf16: what is beside it stays.
void Ranks::parts_of_tensors() {
  const int64_t count = 4099;
  const Tensor from = cast(full(device, {count}, comm.rank() + 1), DType::bf16), to = cast(full(device, {count}, 99), DType::bf16);
  const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
  const Outgoing send[] = {{next, from.part(0, 1, count - 3).view()}};
  const Incoming receive[] = {{before, to.part(0, 3, count - 1).mut_view()}};
  comm.start(stream, send, receive)->wait();
  const std::vector<float> got = cast(to, DType::f32).to_host<float>();
  bool right = true;
  for (int64_t i = 0; i < count; ++i) right = right && got[size_t(i)] == (i < 3 || i == count - 1 ? 99.f : float(before + 1));
  expect(right, "parts of tensors");
}

// Kernels write what is sent just before start(), and overwrite it just after wait(); others read what was received. Nothing waits on the
// host, and a long kernel before each makes a missing order visible.
void Ranks::order_with_kernels() {
  const int64_t count = 1 << 18;
  const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
  const bool gpu = device.name() != "cpu";
  const Tensor large = full(device, {gpu ? 2048 : 64, gpu ? 2048 : 64}, 1);
  const Tensor sent = full(device, {count}, 0), received = full(device, {count}, 0);
  std::vector<Tensor> kept;
  for (int i = 0; i < 40; ++i) {
    matmul(large, large);
    fill(sent, i * 100 + comm.rank());
    const Outgoing send[] = {{next, sent.view()}};
    const Incoming receive[] = {{before, received.mut_view()}};
    const std::unique_ptr<Transfer> transfer = comm.start(stream, send, receive);
    matmul(large, large);
    transfer->wait();
    fill(sent, -1);
    kept.push_back(received + 0);
  }
  for (int i = 0; i < 40; ++i)
    expect(kept[size_t(i)].to_host<float>() == std::vector<float>(count, float(i * 100 + before)), join("order with kernels: round ", i));
}

// Memory goes back to the pool after each wait() and is used again at once, while the messages may still be under way.
void Ranks::memory_is_reused() {
  for (int i = 0; i < 40; ++i) {
    AllToAll all = start_all(300 + i, 50000);
    all.transfer->wait();
    std::vector<Tensor> copies;
    for (const Tensor& tensor : all.received) copies.push_back(tensor + 0);
    all = {};
    const Tensor garbage = full(device, {50000}, -7), more = full(device, {50000}, -8);
    for (size_t k = 0; k < copies.size(); ++k) expect_message(copies[k], others()[k], 300 + i, "memory is reused");
  }
}

// Rank 0 comes half a second late: the others have waited for it, and it for nobody.
void Ranks::waiting_is_counted() {
  start_all(400, 1000).transfer->wait();
  device.synchronize();
  comm.barrier();
  const double before = comm.seconds_waited();
  if (comm.first()) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  AllToAll all = start_all(401, 1000);
  all.transfer->wait();
  device.synchronize();
  start_all(402, 1).transfer->wait();  // reads the times
  const double waited = comm.seconds_waited() - before;
  expect(comm.first() ? waited < 0.4 : waited > 0.3 && waited < 5, join("seconds waited: ", waited));
}

void Ranks::host_memory() {
  int number = comm.first() ? 42 : 0;
  comm.broadcast(std::as_writable_bytes(std::span(&number, 1)), 0);
  expect(number == 42, "broadcast");
  const std::vector<std::string> all = comm.all_gather(std::string(size_t(comm.rank()), 'x'));
  for (int rank = 0; rank < comm.size(); ++rank) expect(all[size_t(rank)] == std::string(size_t(rank), 'x'), "all-gather");
}

// Rank 0 asks who is there: first all others answer, then all but the last.
int check_roll_call(Communicator& host) {
  int failed = 0;
  for (const bool all : {true, false}) {
    host.barrier();
    const bool answers = all || host.rank() != host.size() - 1;
    if (host.first()) {
      const std::vector<int> silent = host.silent_ranks();
      failed += silent != (all ? std::vector<int>{} : std::vector{host.size() - 1});
    }
    for (int i = 0; i < 70 && !host.first(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (answers) host.answer();
    }
  }
  if (failed) std::fprintf(stderr, "FAILED: who answers\n");
  return failed;
}

// The last rank fails; the others have a message under way to it and never return from here.
int trouble(Ranks& ranks, const std::string& what) {
  ranks.start_all(1, 1000).transfer->wait();
  ranks.device.synchronize();
  if (ranks.comm.rank() == ranks.comm.size() - 1) {
    if (what == "stops") raise(SIGSTOP);
    if (what == "is-killed") raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::minutes(1));
    return 1;
  }
  Ranks::AllToAll all = ranks.start_all(2, 1000);
  all.transfer->wait();
  ranks.device.synchronize();
  std::fprintf(stderr, "FAILED rank %d: went on without the last rank\n", ranks.comm.rank());
  return 1;
}

int run(const std::string& device_name, const std::string& what) {
  const Launch launch = launch_of_environment();
  const std::chrono::seconds timeout(what.empty() ? 120 : 5);
  std::unique_ptr<Communicator> host = open_communicator({timeout});
  std::string name = device_name;
  if (name == "cuda") {
    bool there = false;
    for (const DeviceEntry& entry : list_devices()) there = there || (entry.available && entry.name == "cuda:0");
    const std::string why = !there ? "there is no GPU" : std::isdigit(nccl_version_text()[0]) ? "" : nccl_version_text();
    if (!why.empty()) {
      if (host->first()) std::printf("skipped: %s\n", why.c_str());
      return kSkipped;
    }
    name = cuda_device_of(launch.local_rank, launch.local_size);
  }
  const int roll_call = what.empty() ? check_roll_call(*host) : 0;
  const std::shared_ptr<Device> device = open_device(name, {.threads = 1});
  const std::unique_ptr<Communicator> communicator = on_device(std::move(host), *device, timeout);
  Ranks ranks(*communicator, *device);
  if (!what.empty()) return trouble(ranks, what);
  ranks.failed = roll_call;
  ranks.sizes();
  ranks.several_at_once();
  ranks.many_to_one_rank();
  ranks.parts_of_tensors();
  ranks.order_with_kernels();
  ranks.memory_is_reused();
  ranks.waiting_is_counted();
  ranks.host_memory();
  const std::vector<int> failed = communicator->all_gather_values(ranks.failed);
  int sum = 0;
  for (const int count : failed) sum += count;
  if (communicator->first())
    std::printf("%s: %d ranks, %s, %s\n", sum ? "FAILED" : "passed", communicator->size(), name.c_str(),
                communicator->description().c_str());
  return sum ? 1 : 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "", what = argc > 2 ? argv[2] : "";
  if ((device != "cuda" && device != "cpu") || !(what.empty() || what == "stops" || what == "is-killed" || what == "is-late")) {
    std::fprintf(stderr, "usage: device_messages cuda|cpu [stops|is-killed|is-late]\n");
    return 2;
  }
  try {
    return weft::run(device, what);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return 1;
  }
}
