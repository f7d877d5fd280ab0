#include "weft/comm/mpi/mpi_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "weft/base/check.h"
#include "weft/comm/cores.h"
#include "weft/comm/mpi/messages.h"
#include "weft/comm/mpi/process.h"
#include "weft/comm/mpi/roll_call.h"
#include "weft/device/device.h"

namespace weft::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// A rank with a core of its own spins as long as ranks are usually apart at the end of a step; without one it would spin on the core of
// the rank it waits for. Measured with 2 and 4 ranks on 2 cores: docs/lab/distributed.md.
constexpr std::chrono::microseconds kSpin(1000), kSpinCrowded(60);
constexpr auto kPollEvery = std::chrono::milliseconds(20);
constexpr auto kToAnswer = std::chrono::milliseconds(1000);  // of a roll call: ranks that sleep look at least every 20 ms
constexpr auto kToSpeak = std::chrono::milliseconds(2000);
// Counted of one pause at most: while this process itself was stopped, the others were not silent.
constexpr auto kLongestStep = std::chrono::seconds(1);

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown host";
  return name;
}

MPI_Comm duplicate() {
  const Library& mpi = library();
  MPI_Comm copy;
  expect_success(mpi.Comm_dup(mpi.comm_world, &copy), "the first message between ranks (MPI_Comm_dup)");  // no port, no route
  expect_success(mpi.Comm_set_errhandler(copy, mpi.errors_return), "MPI_Comm_set_errhandler");
  return copy;
}

size_t bytes_of(const View& view) { return size_t(view.numel() * size_of(view.dtype)); }

class MpiCommunicator;

// Messages of device memory: of the CPU's from and to the buffers themselves, of another device's through host memory.
class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(MpiCommunicator& ranks, Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive);
  ~MpiTransfer() override {
    // An exception is about to end the run: the others may never answer, and nothing is received unless MPI is called.
    if (std::uncaught_exceptions() == exceptions_) wait();
  }
  void wait() override;
  void progress() override { messages_.test(); }

 private:
  struct Staged {
    std::unique_ptr<std::byte[]> bytes;
    MutView to;  // absent: sent
  };
  std::byte* host_memory(const View& view) const {
    return static_cast<std::byte*>(view.buffer->handle()) + view.buffer->offset() + view.offset;
  }

  const int exceptions_ = std::uncaught_exceptions();
  MpiCommunicator& ranks_;
  Device& device_;
  const bool in_place_;
  std::vector<Staged> staged_;
  Messages messages_;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const Launch& launch, std::chrono::seconds timeout)
      : Communicator(launch.rank, launch.size),
        timeout_(timeout),
        for_host_(duplicate()),
        for_devices_(duplicate()),
        roll_call_(duplicate(), launch.rank, launch.size) {
    const std::vector<detail::RankCpus> ranks = detail::gather_cpus(*this, host_name());
    for (const detail::RankCpus& rank : ranks) hosts_.push_back(rank.host);
    crowded_ = detail::crowded(ranks, launch.rank);
  }
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > exceptions_) return;  // at exit all ranks are ended (process.h)
    barrier();                                             // MPI_Finalize waits, too, but does not say for whom
    end(timeout_);
  }

  std::string description() const override { return version(); }
  std::string host(int rank) const override { return hosts_.empty() ? "unknown host" : hosts_.at(size_t(rank)); }
  [[noreturn]] void abort(int status) override { abort_all(status); }
  void answer() override { roll_call_.poll(); }
  std::vector<int> silent_ranks() override;

  // Returns when all are done, or ends all ranks with a message that names those that did not answer.
  void wait(Messages& messages);

 protected:
  std::unique_ptr<Transfer> do_start(Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive) override {
    return std::make_unique<MpiTransfer>(*this, stream, send, receive);
  }

  void do_exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive) override {
    Messages messages;
    for (const HostIncoming& message : receive) messages.receive(for_host_, message.from, message.bytes.data(), message.bytes.size());
    for (const HostOutgoing& message : send) messages.send(for_host_, message.to, message.bytes.data(), message.bytes.size());
    // A rank that only sends for a long time (signs of life) never waits, and what others send it would fill up MPI's buffers.
    if (receive.empty()) roll_call_.poll();
    wait(messages);
  }

 private:
  friend class MpiTransfer;

  std::string names_of(const std::vector<int>& ranks) const;
  bool arrives_during(Messages& messages, std::chrono::milliseconds time);
  void find_missing(Messages& messages);

  const int exceptions_ = std::uncaught_exceptions();
  const std::chrono::seconds timeout_;
  const MPI_Comm for_host_, for_devices_;  // an exchange and a transfer may be under way at the same time
  RollCall roll_call_;
  std::vector<std::string> hosts_;
  bool crowded_ = true;  // more ranks than cores on this host
};

MpiTransfer::MpiTransfer(MpiCommunicator& ranks, Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive)
    : ranks_(ranks), device_(stream.device()), in_place_(device_.name() == "cpu") {
  const auto start = Clock::now();
  for (const Incoming& message : receive) {
    const size_t bytes = bytes_of(message.data);
    if (!in_place_) staged_.push_back({std::make_unique_for_overwrite<std::byte[]>(bytes), message.data});
    messages_.receive(ranks_.for_devices_, message.from, in_place_ ? host_memory(message.data) : staged_.back().bytes.get(), bytes);
  }
  for (const Outgoing& message : send) {
    const size_t bytes = bytes_of(message.data);
    if (!in_place_) {
      staged_.push_back({std::make_unique_for_overwrite<std::byte[]>(bytes), {}});
      device_.download(staged_.back().bytes.get(), *message.data.buffer, message.data.offset, int64_t(bytes));
    }
    messages_.send(ranks_.for_devices_, message.to, in_place_ ? host_memory(message.data) : staged_.back().bytes.get(), bytes);
  }
  ranks_.count_wait(seconds(Clock::now() - start));
}

void MpiTransfer::wait() {
  if (messages_.done() && staged_.empty()) return;
  const auto start = Clock::now();
  ranks_.wait(messages_);
  for (const Staged& part : staged_)
    if (part.to) device_.upload(*part.to.buffer, part.to.offset, part.bytes.get(), int64_t(bytes_of(part.to)));
  staged_.clear();
  ranks_.count_wait(seconds(Clock::now() - start));
}

void MpiCommunicator::wait(Messages& messages) {
  messages.test();
  if (messages.done()) return;
  Backoff backoff(crowded_ ? kSpinCrowded : kSpin);
  auto since = Clock::now(), last = since, polled = since;
  Clock::duration waited{};
  for (;;) {
    const auto now = backoff.pause(since);
    const bool moved = messages.test();
    if (messages.done()) return;
    waited += std::min<Clock::duration>(now - last, kLongestStep);
    last = now;
    if (moved) {
      since = now;
      waited = {};
    }
    if (now - polled > kPollEvery) {
      roll_call_.poll();
      polled = now;
    }
    if (waited > timeout_) {
      find_missing(messages);
      waited = {};
    }
  }
}

bool MpiCommunicator::arrives_during(Messages& messages, std::chrono::milliseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    if (messages.test()) return true;
    roll_call_.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

// Returns if a message has arrived after all.
void MpiCommunicator::find_missing(Messages& messages) {
  roll_call_.ask();
  if (arrives_during(messages, kToAnswer)) return;
  std::vector<int> missing;
  for (int other : messages.pending_ranks())
    if (!roll_call_.answered(other)) missing.push_back(other);
  for (int other = 0; other < size() && missing.empty(); ++other)  // those that we wait for wait themselves
    if (!roll_call_.answered(other)) missing.push_back(other);
  // The lowest rank that answers prints; the others leave it the time to do so.
  bool lowest = true;
  for (int other = 0; other < rank(); ++other) lowest = lowest && !roll_call_.answered(other);
  if (!lowest && arrives_during(messages, kToSpeak)) return;
  if (missing.empty())
    abort_with(join(name_of(rank()), ": no message arrived within ", timeout_.count(),
                    " s (--timeout) although all ranks answer: they do not run the same steps, or the network is too slow"));
  abort_with(join(names_of(missing), " did not answer within ", timeout_.count(), " s (--timeout)"));
}

std::vector<int> MpiCommunicator::silent_ranks() {
  roll_call_.ask();
  Messages none;
  arrives_during(none, kToAnswer);
  std::vector<int> silent;
  for (int other = 0; other < size(); ++other)
    if (!roll_call_.answered(other)) silent.push_back(other);
  return silent;
}

std::string MpiCommunicator::names_of(const std::vector<int>& ranks) const {
  constexpr size_t kMost = 8;
  std::string names;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) names += (i ? ", " : "") + name_of(ranks[i]);
  return ranks.size() > kMost ? join(names, " and ", ranks.size() - kMost, " more ranks") : names;
}

}  // namespace

std::unique_ptr<Communicator> open(const Launch& launch, const CommunicatorOptions& options) {
  start(launch, options.timeout);
  return std::make_unique<MpiCommunicator>(launch, options.timeout);
}

}  // namespace weft::mpi
