#include "tests/comm/moves.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/tensor/tensor.h"

namespace weft::comm_test {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The contents of message `index` between two ranks: a generator seeded by all three, so that no two messages, and no two places of one,
// have the same bytes.
Bytes contents(int from, int to, int index, size_t bytes) {
  uint64_t state = uint64_t(from) * 0x9E3779B97F4A7C15u + uint64_t(to) * 0xD1B54A32D192ED03u + uint64_t(index) * 0x8CB92BA72F3D8DD7u + 1;
  Bytes result(bytes);
  for (size_t at = 0; at < bytes; at += sizeof state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t word = state ^ state >> 29;  // the low bits of the state alone have short periods
    std::memcpy(result.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return result;
}

std::string text_of(int from, int to, int index, size_t bytes) {
  const Bytes data = contents(from, to, index, bytes);
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

void expect_equal(const Bytes& got, const Bytes& expected, const char* what, int from, int index) {
  if (got == expected) return;
  check(got.size() == expected.size(), what, got.size(), " bytes from rank ", from, ", expected ", expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    check(got[i] == expected[i], what, "byte ", i, " of ", expected.size(), " of message ", index, " from rank ", from, " is wrong");
}

// Messages of these sizes from every rank to every other, at once. The last is more than a piece (64 MiB): between ranks 0 and 1 alone.
void check_exchange(Communicator& ranks) {
  const std::vector<size_t> sizes = {0, 1, 7, 4096, 4097, 100'003, 0, (5u << 20) + 3, (130u << 20) + 5};
  const int own = ranks.rank();
  std::vector<Bytes> sent, received;
  std::vector<HostOutgoing> out;
  std::vector<HostIncoming> in;
  sent.reserve(sizes.size() * size_t(ranks.size()));
  received.reserve(sent.capacity());
  const auto travels = [](size_t size, int a, int b) { return size < (64u << 20) || a + b == 1; };
  for (size_t i = 0; i < sizes.size(); ++i)
    for (int other = 0; other < ranks.size(); ++other) {
      if (other == own || !travels(sizes[i], own, other)) continue;
      out.push_back({other, sent.emplace_back(contents(own, other, int(i), sizes[i]))});
      in.push_back({other, received.emplace_back(sizes[i], std::byte(0xEE))});
    }
  ranks.exchange(out, in);
  size_t next = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    for (int other = 0; other < ranks.size(); ++other)
      if (other != own && travels(sizes[i], own, other))
        expect_equal(received[next++], contents(other, own, int(i), sizes[i]), "exchange", other, int(i));
}

void check_gathers(Communicator& ranks) {
  const int own = ranks.rank();
  for (int root = 0; root < ranks.size(); ++root)
    for (size_t bytes : {size_t(0), size_t(1), size_t(70'001)}) {
      Bytes data = own == root ? contents(root, 99, 1, bytes) : Bytes(bytes, std::byte(0xEE));
      ranks.broadcast(data, root);
      expect_equal(data, contents(root, 99, 1, bytes), "broadcast", root, 1);
    }
  const std::vector<std::string> all = ranks.all_gather(text_of(own, 98, 2, size_t(own) * 1000));  // nothing from rank 0
  check(int(all.size()) == ranks.size(), "all_gather", all.size(), " parts");
  for (int other = 0; other < ranks.size(); ++other)
    check(all[size_t(other)] == text_of(other, 98, 2, size_t(other) * 1000), "all_gather", "wrong bytes of rank ", other);

  std::vector<std::string> parts;
  for (int to = 0; to < ranks.size(); ++to) parts.push_back(text_of(own, to, 3, size_t(own * 7 + to * 100)));
  const std::vector<std::string> got = ranks.all_to_all(parts);
  for (int from = 0; from < ranks.size(); ++from)
    check(got.at(size_t(from)) == text_of(from, own, 3, size_t(from * 7 + own * 100)), "all_to_all", "wrong bytes of rank ", from);

  struct Pair {
    double value;
    int64_t index;
  };
  const std::vector<Pair> pairs = ranks.all_gather_values(Pair{own * 1.25 + 0.1, own - 1000});
  for (int other = 0; other < ranks.size(); ++other)
    check(pairs.at(size_t(other)).value == other * 1.25 + 0.1 && pairs[size_t(other)].index == other - 1000, "all_gather_values", "rank ",
          other);
}

// Each rank in turn is late for a barrier: the others wait for it, and count the seconds.
void check_barrier(Communicator& ranks) {
  for (int late = 0; late < ranks.size(); ++late) {
    ranks.barrier();
    const double waited = ranks.seconds_waited();
    const auto start = Clock::now();
    if (ranks.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ranks.barrier();
    if (ranks.rank() == late) continue;
    check(seconds_since(start) > 0.05, "barrier", "did not wait for rank ", late);
    check(ranks.seconds_waited() - waited > 0.05, "seconds_waited", ranks.seconds_waited() - waited, " s, expected about 0.1 s");
  }
}

// Parts of one tensor for each other rank, and where theirs are received.
struct Parts {
  Parts(Communicator& ranks, Device& device, int index, int64_t count) : ranks(ranks), index(index), count(count) {
    Bytes all;
    for (int to = 0; to < ranks.size(); ++to) {
      const Bytes part = contents(ranks.rank(), to, index, size_t(count) * 4);
      all.insert(all.end(), part.begin(), part.end());
    }
    sent = Tensor::from_bytes(device, {ranks.size(), count}, DType::f32, all.data(), int64_t(all.size()));
    const Bytes none(all.size(), std::byte(0xEE));
    received = Tensor::from_bytes(device, {ranks.size(), count}, DType::f32, none.data(), int64_t(none.size()));
    const View from = sent.view();
    const MutView to = received.mut_view();
    for (int other = 0; other < ranks.size(); ++other) {
      if (other == ranks.rank()) continue;
      out.push_back({other, part(from, 0, other, other + 1)});
      in.push_back({other, part(to, 0, other, other + 1)});
    }
  }
  std::unique_ptr<Transfer> start(Device& device) { return ranks.start(device.stream(), out, in); }
  void check_received(const char* what) const {
    std::vector<float> values = received.to_host<float>();
    for (int from = 0; from < ranks.size(); ++from) {
      Bytes got(size_t(count) * 4);
      if (count) std::memcpy(got.data(), values.data() + from * count, got.size());
      const Bytes expected = from == ranks.rank() ? Bytes(got.size(), std::byte(0xEE)) : contents(from, ranks.rank(), index, got.size());
      expect_equal(got, expected, what, from, index);
    }
  }

  Communicator& ranks;
  int index;
  int64_t count;
  Tensor sent, received;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
};

}  // namespace

void check_host_moves(Communicator& ranks) {
  check(ranks.description().find("MPI") != std::string::npos, "description", "'", ranks.description(), "'");
  for (int other = 0; other < ranks.size(); ++other) check(!ranks.host(other).empty(), "host", "of rank ", other, " is empty");
  check_exchange(ranks);
  check_gathers(ranks);
  check_barrier(ranks);
}

void check_transfers(Communicator& ranks, const std::string& name) {
  const std::shared_ptr<Device> device = open_device(name, {.threads = 1});
  int index = 100;
  for (int64_t count : {0, 1, 1000, 300'001}) {  // waited for at once
    Parts parts(ranks, *device, ++index, count);
    parts.start(*device)->wait();
    parts.check_received("transfer");
  }
  Parts first(ranks, *device, 200, 70'001), second(ranks, *device, 201, 300), third(ranks, *device, 202, 2000);
  auto one = first.start(*device), two = second.start(*device);
  check_gathers(ranks);  // host memory travels between
  {
    const auto three = third.start(*device);
    three->progress();
  }  // the destructor waits
  third.check_received("transfer: destructor");
  two->wait();
  second.check_received("transfer: the second first");
  for (int i = 0; i < 10; ++i) one->progress();
  one->wait();
  one->wait();
  first.check_received("transfer: the first last");
}

void print_times(Communicator& ranks) {
  ranks.barrier();
  auto start = Clock::now();
  constexpr int kTimes = 300;
  for (int i = 0; i < kTimes; ++i) ranks.barrier();
  const double barrier = seconds_since(start) / kTimes;
  std::string line = join("barrier ", barrier * 1e6, " us; all-to-all");
  const std::shared_ptr<Device> device = open_device("cpu", {.threads = 1});
  for (int64_t count : {1 << 14, 1 << 18, 1 << 22}) {
    Parts parts(ranks, *device, 1, count);
    parts.start(*device)->wait();
    ranks.barrier();
    start = Clock::now();
    constexpr int kRepeats = 5;
    for (int i = 0; i < kRepeats; ++i) parts.start(*device)->wait();
    ranks.barrier();
    const double each = seconds_since(start) / kRepeats;
    line += join(", ", count * 4 >> 10, " KiB parts ", each * 1e3, " ms (", double(count) * 4 * (ranks.size() - 1) / each / 1e9,
                 " GB/s a rank)");
  }
  if (ranks.first()) std::printf("%s\n", line.c_str());
}

std::string bound_cores() {
  std::string text;
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) text += join(text.empty() ? "" : ",", cpu);
  return text;
}

}  // namespace weft::comm_test
