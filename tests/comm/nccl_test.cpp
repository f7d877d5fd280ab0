// The communicator over NCCL without a GPU: ranks are threads, CUDA's runtime and NCCL are fakes (fake_cuda.cpp, fake_nccl.cpp). Shows that
// events alone order messages and computation, and how a run ends when a rank does not answer.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "weft/base/check.h"
#include "weft/comm/nccl/nccl_communicator.h"
#include "weft/tensor/tensor.h"
#include "weft/tile/cuda/runtime.h"

namespace weft {

std::unique_ptr<Graph> cuda::CudaStream::capture_once(const std::function<void()>&) { return nullptr; }

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Memory : MemorySource {
  void* obtain(int64_t bytes) override { return std::malloc(size_t(bytes)); }
  int64_t held() const override { return 0; }
  Room room() override { return {}; }
  void give_back(void* handle, int64_t) override { std::free(handle); }
  void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) override { std::memset(at(handle, offset), value, size_t(bytes)); }
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override { std::memcpy(host, at(handle, offset), size_t(bytes)); }
  static char* at(void* handle, int64_t offset) { return static_cast<char*>(handle) + offset; }
};

class FakeGpu : public Device {
 public:
  FakeGpu() : stream_(*this, 0), pool_(memory_, false, 0) {}
  std::string name() const override { return "cuda:0"; }
  std::string description() const override { return "fake"; }
  Dialect dialect() const override { return Dialect::cuda; }
  const Kernels& kernels() const override { std::abort(); }
  Stream& stream() override { return stream_; }
  Pool& pool() override { return pool_; }
  MemoryInfo memory() override { return {}; }
  void download(void* to, const Buffer& from, int64_t offset, int64_t bytes) override {
    stream_.synchronize();
    std::memcpy(to, Memory::at(from.handle(), from.offset() + offset), size_t(bytes));
  }

 protected:
  void write(const Buffer&, int64_t, const void*, int64_t) override { std::abort(); }

 private:
  cuda::CudaStream stream_;
  Memory memory_;
  Pool pool_;
};

// The state that the threads' host communicators share.
struct Meeting {
  explicit Meeting(int size) : all(size), mail(size_t(size * size)) {}
  std::barrier<> all;
  std::vector<std::string> mail;
  std::vector<int> silent;  // ranks that do not answer
};

class Threads : public Communicator {
 public:
  Threads(Meeting& meeting, int rank, int size) : Communicator(rank, size), meeting_(meeting) {}
  std::string description() const override { return "threads"; }
  std::string host(int) const override { return "here"; }
  [[noreturn]] void abort(int status) override {
    std::this_thread::sleep_for(milliseconds(500));  // for another thread to go on with what it should not see
    std::_Exit(status);
  }
  std::vector<int> silent_ranks() override { return meeting_.silent; }

 protected:
  std::unique_ptr<Transfer> do_start(Stream&, std::span<const Outgoing>, std::span<const Incoming>) override { std::abort(); }
  void do_exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive) override {
    for (const HostOutgoing& message : send)
      mail(rank(), message.to).assign(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
    meeting_.all.arrive_and_wait();
    for (const HostIncoming& message : receive) std::memcpy(message.bytes.data(), mail(message.from, rank()).data(), message.bytes.size());
    meeting_.all.arrive_and_wait();
  }

 private:
  std::string& mail(int from, int to) { return meeting_.mail[size_t(from * size() + to)]; }
  Meeting& meeting_;
};

// One rank: its GPU, its communicator, and its neighbours in a ring.
struct Rank {
  Rank(Meeting& meeting, int rank, int size, seconds timeout)
      : device(std::make_shared<FakeGpu>()),
        stream(device->stream()),
        comm(nccl::connect(std::make_unique<Threads>(meeting, rank, size), *device, timeout)),
        next((rank + 1) % size),
        before((rank + size - 1) % size) {}

  static constexpr int64_t kCount = 1000;
  Tensor empty() { return Tensor::empty(*device, {kCount}); }
  // A "kernel" that takes a while.
  void launch(std::function<void()> kernel) {
    const auto call = [](void* data) {
      const std::unique_ptr<std::function<void()>> work(static_cast<std::function<void()>*>(data));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      (*work)();
    };
    cudaLaunchHostFunc(cuda::of(stream).handle(), call, new std::function<void()>(std::move(kernel)));
  }
  static float* values(const Tensor& tensor) {
    const View& view = tensor.view();
    return reinterpret_cast<float*>(Memory::at(view.buffer->handle(), view.buffer->offset() + view.offset));
  }
  void fill(const Tensor& tensor, float value) {
    launch([to = values(tensor), value] { std::fill_n(to, kCount, value); });
  }
  void copy(const Tensor& from, const Tensor& to) {
    launch([a = values(from), b = values(to)] { std::copy_n(a, kCount, b); });
  }
  std::unique_ptr<Transfer> pass_on(const Tensor& sent, const Tensor& received) {
    const Outgoing send[] = {{next, sent.view()}};
    const Incoming receive[] = {{before, received.mut_view()}};
    return comm->start(stream, send, receive);
  }

  std::shared_ptr<FakeGpu> device;
  Stream& stream;
  std::unique_ptr<Communicator> comm;
  const int next, before;
};

// Runs `work` on every rank, a thread each.
void on_ranks(int size, const std::function<void(Rank&)>& work, seconds timeout = seconds(60), std::vector<int> silent = {}) {
  Meeting meeting(size);
  meeting.silent = std::move(silent);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Rank one(meeting, rank, size, timeout);
      work(one);
    });
  for (std::thread& thread : threads) thread.join();
}

class Nccl : public testing::TestWithParam<int> {};

TEST_P(Nccl, EventsOrderMessagesAndKernels) {
  on_ranks(GetParam(), [](Rank& rank) {
    constexpr int kRounds = 100;
    const Tensor sent = rank.empty(), received = rank.empty();
    std::vector<Tensor> kept;
    for (int i = 0; i < kRounds; ++i) {
      rank.fill(sent, float(i * 10 + rank.comm->rank()));
      const std::unique_ptr<Transfer> transfer = rank.pass_on(sent, received);
      transfer->wait();
      rank.fill(sent, -1);
      kept.push_back(rank.empty());
      rank.copy(received, kept.back());
    }
    for (int i = 0; i < kRounds; ++i)
      EXPECT_EQ(kept[size_t(i)].to_host<float>(), std::vector<float>(Rank::kCount, float(i * 10 + rank.before))) << "round " << i;
  });
}

TEST_P(Nccl, SeveralTransfersMayBeUnderWay) {
  on_ranks(GetParam(), [](Rank& rank) {
    std::vector<Tensor> sent, received;
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int i = 0; i < 5; ++i) {
      sent.push_back(rank.empty());
      received.push_back(rank.empty());
      rank.fill(sent.back(), float(i * 10 + rank.comm->rank()));
      transfers.push_back(rank.pass_on(sent.back(), received.back()));
    }
    while (!transfers.empty()) transfers.pop_back();  // the destructors wait
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(received[size_t(i)].to_host<float>(), std::vector<float>(Rank::kCount, float(i * 10 + rank.before)));
  });
}

TEST_P(Nccl, CountsTheTimeForWhichTheComputationStoodStill) {
  on_ranks(GetParam(), [](Rank& rank) {
    const Tensor sent = rank.empty(), received = rank.empty();
    rank.comm->barrier();
    const double before = rank.comm->seconds_waited();
    if (rank.comm->first()) std::this_thread::sleep_for(milliseconds(500));
    rank.fill(sent, 1);
    rank.pass_on(sent, received)->wait();
    rank.device->synchronize();
    rank.pass_on(sent, received)->wait();  // reads the times
    const double waited = rank.comm->seconds_waited() - before;
    if (rank.before == 0)
      EXPECT_GT(waited, 0.3);
    else
      EXPECT_LT(waited, 0.3);
    EXPECT_EQ(rank.comm->description(), "NCCL 2.30.7, threads");
    rank.device.reset();  // the communicator keeps it
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Nccl, testing::Values(2, 4));

// The last rank starts no message. Exit status 42: a rank has read memory that an aborted message was to fill.
void last_rank_is_missing(std::vector<int> silent, bool fail) {
  const auto work = [fail](Rank& rank) {
    const Tensor sent = rank.empty(), received = rank.empty();
    rank.fill(sent, 1);
    rank.pass_on(sent, received)->wait();
    rank.device->synchronize();
    if (rank.comm->rank() == rank.comm->size() - 1) {
      if (fail) reinterpret_cast<void (*)()>(dlsym(dlopen("libnccl.so.2", RTLD_NOW), "fake_nccl_fail"))();
      std::this_thread::sleep_for(seconds(60));
    }
    rank.pass_on(sent, received)->wait();
    if (rank.before == rank.comm->size() - 1) {
      rank.device->synchronize();
      std::_Exit(42);
    }
    std::this_thread::sleep_for(seconds(60));
  };
  on_ranks(4, work, seconds(fail ? 60 : 1), std::move(silent));
}

TEST(NcclDeathTest, ARankThatDoesNotAnswerIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(last_rank_is_missing({3}, false), testing::ExitedWithCode(1),
              "^weft: rank 3 on here did not answer within 1 s \\(--timeout\\)\nncclCommAbort\n$");
}

TEST(NcclDeathTest, IfAllAnswerTheMessagesAreNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(last_rank_is_missing({}, false), testing::ExitedWithCode(1),
              "^weft: rank 0 on here: messages with rank 1 on here, rank 3 on here did not finish within 1 s .*\nncclCommAbort\n$");
}

TEST(NcclDeathTest, AnAsynchronousErrorIsReportedInNcclsWords) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      last_rank_is_missing({3}, true), testing::ExitedWithCode(1),
      "^weft: rank 0 on here: NCCL failed: remote process exited \\(the cable was cut\\); no answer from rank 3 on here\nncclCommAbort\n$");
}

}  // namespace
}  // namespace weft
