#include "weft/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "weft/base/check.h"
#include "weft/comm/nccl/library.h"
#include "weft/comm/nccl/pending_watch.h"
#include "weft/tile/cuda/runtime.h"

namespace weft::nccl {
namespace {

using cuda::CudaStream;
using cuda::require;

// A point in a stream's order of work, with the time at which the device reached it.
class Event {
 public:
  Event() { require(cudaEventCreate(&event_), "nccl", "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { require(cudaEventRecord(event_, stream), "nccl", "recording an event"); }
  void make_wait(cudaStream_t stream) const { require(cudaStreamWaitEvent(stream, event_, 0), "nccl", "waiting for an event"); }
  // Whether the device has reached it. A device that failed reaches nothing more, which its next synchronize() reports.
  bool reached() const {
    const bool done = cudaEventQuery(event_) != cudaErrorNotReady;
    cudaGetLastError();  // "not ready" is an error, too
    return done;
  }
  double seconds_since(const Event& earlier) const {
    float milliseconds = 0;
    const cudaError_t status = cudaEventElapsedTime(&milliseconds, earlier.event_, event_);
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess ? double(milliseconds) * 1e-3 : 0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// One group of messages.
struct Group : PendingWatch::Work {
  bool started() const override { return ready.reached(); }
  bool done() const override { return received.reached(); }

  Event ready;     // on the stream of the computation: what is sent has been computed
  Event received;  // on the stream of the communication: all messages are done
  Event wanted;    // on the stream of the computation: it waits for them from here on
  std::set<int> others;
};

class NcclCommunicator;

class NcclTransfer final : public Transfer {
 public:
  NcclTransfer(NcclCommunicator& communicator, CudaStream& stream, std::shared_ptr<Group> group)
      : communicator_(communicator), stream_(stream), group_(std::move(group)) {}
  ~NcclTransfer() override {
    try {
      wait();
    } catch (...) {  // the device failed; its next synchronize() reports that
    }
  }
  void wait() override;

 private:
  NcclCommunicator& communicator_;
  CudaStream& stream_;
  std::shared_ptr<Group> group_;  // null after wait()
};

// The stream of the communication waits, by an event, for what the computation launched before start(); the computation's stream waits in
// the same way at Transfer::wait(). The host waits nowhere.
//
// Memory: the pool reuses a buffer in the order of the computation's stream, which does not know of the communication's until wait().
// Whoever starts a transfer keeps its buffers until then.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, Device& device, std::chrono::seconds timeout);
  ~NcclCommunicator() override;

  std::string description() const override { return join("NCCL ", version_text(nccl_.version), ", ", host_->description()); }
  std::string host(int rank) const override { return host_->host(rank); }
  [[noreturn]] void abort(int status) override {
    host_->abort(status);
    std::_Exit(status);  // not reached: tells the compiler
  }

  // The computation's stream waits from now on for this group.
  void wait(CudaStream& stream, const std::shared_ptr<Group>& group);

 protected:
  std::unique_ptr<Transfer> do_start(Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive) override;
  void do_exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive) override {
    count_stalls();
    const std::lock_guard lock(using_host_);
    host_->exchange(send, receive);
  }

 private:
  void use() const { cudaSetDevice(compute_.index()); }
  void succeed(ncclResult_t result, const char* what) const;
  ncclUniqueId share_id();
  void launch(std::span<const Outgoing> send, std::span<const Incoming> receive);
  void* address(const View& data) const;
  void count_stalls();

  // Of the watch's thread.
  std::string look(bool waiting);
  std::vector<int> find_silent();
  [[noreturn]] void end_late(const PendingWatch::Work& work);
  [[noreturn]] void end_failed(const std::string& why);
  std::string names(const std::vector<int>& ranks) const;
  [[noreturn]] void end_all(const std::string& message);

  const int exceptions_ = std::uncaught_exceptions();
  const Library& nccl_;
  const std::unique_ptr<Communicator> host_;
  const std::shared_ptr<Device> device_;  // lives as long as its stream is used here
  CudaStream& compute_;
  const std::chrono::seconds timeout_;
  std::mutex using_host_;  // held by whoever calls host_
  std::unique_ptr<CUstream_st, cudaError_t (*)(cudaStream_t)> stream_{nullptr, cudaStreamDestroy};
  std::atomic<ncclComm_t> ranks_ = nullptr;
  std::deque<std::shared_ptr<const Group>> waited_for_;  // stalls not counted yet
  std::atomic<bool> ending_ = false;
  std::unique_ptr<PendingWatch> watch_;
};

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> host, Device& device, std::chrono::seconds timeout)
    : Communicator(host->rank(), host->size()),
      nccl_(library()),
      host_(std::move(host)),
      device_(device.shared_from_this()),
      compute_(cuda::of(device.stream())),
      timeout_(timeout) {
  use();
  int least = 0, most = 0;
  require(cudaDeviceGetStreamPriorityRange(&least, &most), "nccl", "reading the range of priorities");
  // Messages take few multiprocessors; without the higher priority they would wait for the blocks of every kernel that is queued.
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, most), "nccl", "creating a stream");
  stream_.reset(stream);
  const ncclUniqueId id = share_id();
  watch_ = std::make_unique<PendingWatch>(
      timeout_, PendingWatch::Actions{[this](bool waiting) { return look(waiting); }, [this](const std::string& why) { end_failed(why); },
                                      [this](const PendingWatch::Work& work) { end_late(work); }});
  const PendingWatch::Call call(*watch_);
  ncclComm_t ranks = nullptr;
  succeed(nccl_.CommInitRank(&ranks, size(), id, rank()), "connecting the ranks");
  ranks_ = ranks;
}

// Rank 0 makes the id. If it cannot, all ranks throw.
ncclUniqueId NcclCommunicator::share_id() {
  struct {
    ncclResult_t result = ncclSuccess;
    ncclUniqueId id{};
  } made;
  if (first()) made.result = nccl_.GetUniqueId(&made.id);
  std::string why = first() && made.result != ncclSuccess ? describe(made.result, nullptr) : "";
  broadcast(std::as_writable_bytes(std::span(&made, 1)), 0);
  if (made.result != ncclSuccess)
    fail(ErrorCode::unsupported, "NCCL", name_of(0), " cannot start it: ", first() ? why : nccl_.GetErrorString(made.result));
  return made.id;
}

// All messages have been waited for, so the others need this rank no more than it needs them. After an error they may be gone.
NcclCommunicator::~NcclCommunicator() {
  use();
  const bool failed = std::uncaught_exceptions() > exceptions_;
  if (const ncclComm_t ranks = ranks_.exchange(nullptr)) {
    const PendingWatch::Call call(*watch_);
    if (!failed) cudaStreamSynchronize(stream_.get());
    failed ? nccl_.CommAbort(ranks) : nccl_.CommDestroy(ranks);
  }
  watch_.reset();
  cudaGetLastError();
}

// Throws with NCCL's words.
void NcclCommunicator::succeed(ncclResult_t result, const char* what) const {
  if (result == ncclSuccess) [[likely]]
    return;
  while (ending_) std::this_thread::sleep_for(std::chrono::seconds(1));  // ncclCommAbort made the call return
  fail(ErrorCode::device_fault, "NCCL", what, " failed: ", describe(result, ranks_));
}

void* NcclCommunicator::address(const View& data) const {
  check(&data.buffer->device() == device_.get(), "communicator", "a message's memory is of ", data.buffer->device().name(), ", expected ",
        device_->name());
  return static_cast<char*>(data.buffer->handle()) + data.buffer->offset() + data.offset;
}

// Messages are bytes to NCCL. Those of no bytes are left out by both sides.
void NcclCommunicator::launch(std::span<const Outgoing> send, std::span<const Incoming> receive) {
  const auto bytes = [](const View& data) { return size_t(data.numel() * size_of(data.dtype)); };
  succeed(nccl_.GroupStart(), "starting a group");
  for (const Outgoing& message : send)
    if (const size_t count = bytes(message.data))
      succeed(nccl_.Send(address(message.data), count, ncclUint8, message.to, ranks_, stream_.get()), "sending");
  for (const Incoming& message : receive)
    if (const size_t count = bytes(message.data))
      succeed(nccl_.Recv(address(message.data), count, ncclUint8, message.from, ranks_, stream_.get()), "receiving");
  const PendingWatch::Call call(*watch_);  // the first message to a rank connects to it
  succeed(nccl_.GroupEnd(), "launching a group of messages");
}

std::unique_ptr<Transfer> NcclCommunicator::do_start(Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive) {
  CudaStream& compute = cuda::of(stream);
  compute.not_while_capturing("communicator", "a transfer");
  use();
  count_stalls();
  auto group = std::make_shared<Group>();
  for (const Outgoing& message : send) group->others.insert(message.to);
  for (const Incoming& message : receive) group->others.insert(message.from);
  group->ready.record(compute.handle());
  group->ready.make_wait(stream_.get());
  launch(send, receive);
  group->received.record(stream_.get());
  watch_->add(group);
  return std::make_unique<NcclTransfer>(*this, compute, std::move(group));
}

void NcclTransfer::wait() {
  if (const std::shared_ptr<Group> group = std::move(group_)) communicator_.wait(stream_, group);
}

void NcclCommunicator::wait(CudaStream& stream, const std::shared_ptr<Group>& group) {
  use();
  group->wanted.record(stream.handle());
  group->received.make_wait(stream.handle());
  waited_for_.push_back(group);
  count_stalls();
}

// The computation stood still from `wanted` to `received`, if that was later. Times are read once the device has passed both.
void NcclCommunicator::count_stalls() {
  use();
  for (; !waited_for_.empty(); waited_for_.pop_front()) {
    const Group& oldest = *waited_for_.front();
    if (!oldest.wanted.reached() || !oldest.received.reached()) return;
    count_wait(std::max(0.0, oldest.received.seconds_since(oldest.wanted)));
  }
}

// A rank that waits itself answers, in an exchange or here; one that does not keeps the others waiting.
std::string NcclCommunicator::look(bool waiting) {
  use();
  if (std::unique_lock lock(using_host_, std::defer_lock); waiting && lock.try_lock()) host_->answer();
  const ncclComm_t ranks = ranks_;
  if (!ranks) return "";
  ncclResult_t found = ncclSuccess;
  const ncclResult_t asked = nccl_.CommGetAsyncError(ranks, &found);
  if (asked != ncclSuccess) found = asked;
  return found == ncclSuccess || found == ncclInProgress ? "" : describe(found, ranks);
}

// The ranks that do not answer. One rank prints: the lowest that is there returns from this at once.
std::vector<int> NcclCommunicator::find_silent() {
  std::unique_lock lock(using_host_, std::defer_lock);
  // If this rank is in an exchange, that one's timeout ends all ranks, or it ends soon.
  for (const auto end = std::chrono::steady_clock::now() + timeout_; !lock.try_lock();) {
    if (std::chrono::steady_clock::now() > end) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::vector<int> silent = host_->silent_ranks();
  int lowest = 0;
  while (lowest < rank() && std::find(silent.begin(), silent.end(), lowest) != silent.end()) ++lowest;
  for (int i = 0; i < 100 && lowest < rank(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    host_->answer();
  }
  return silent;
}

void NcclCommunicator::end_late(const PendingWatch::Work& work) {
  const std::vector<int> silent = find_silent();
  if (!silent.empty()) end_all(join(names(silent), " did not answer within ", timeout_.count(), " s (--timeout)"));
  const auto* const group = dynamic_cast<const Group*>(&work);
  end_all(join(name_of(rank()), ": ", group ? "messages with " + names({group->others.begin(), group->others.end()}) : "a call of NCCL",
               " did not finish within ", timeout_.count(),
               " s (--timeout): the ranks do not run the same steps, or the network is too slow"));
}

void NcclCommunicator::end_failed(const std::string& why) {
  const std::vector<int> silent = find_silent();
  end_all(join(name_of(rank()), ": NCCL failed: ", why, silent.empty() ? "" : "; no answer from " + names(silent)));
}

std::string NcclCommunicator::names(const std::vector<int>& ranks) const {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) text += (i ? ", " : "") + name_of(ranks[i]);
  return ranks.size() > kMost ? join(text, " and ", ranks.size() - kMost, " more ranks") : text;
}

// Memory that an aborted message was to fill holds anything: the stream lets nobody read it any more. The process ends even if
// ncclCommAbort does not return.
void NcclCommunicator::end_all(const std::string& message) {
  const std::string line = join("weft: ", message, "\n");  // one write: lines of several ranks do not mix
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  ending_ = true;
  compute_.hold();
  if (const ncclComm_t ranks = ranks_) {
    std::packaged_task<void()> task([this, ranks] {
      use();
      nccl_.CommAbort(ranks);
    });
    const std::future<void> aborted = task.get_future();
    std::thread(std::move(task)).detach();
    aborted.wait_for(std::chrono::seconds(5));
  }
  abort(EXIT_FAILURE);
}

}  // namespace

std::unique_ptr<Communicator> connect(std::unique_ptr<Communicator> host, Device& device, std::chrono::seconds timeout) {
  return std::make_unique<NcclCommunicator>(std::move(host), device, timeout);
}

}  // namespace weft::nccl
