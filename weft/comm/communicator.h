// The processes of one run, called ranks, and how bytes travel between them.
//
//   alone()                 one process; nothing travels
//   open_communicator()     the ranks that mpirun or srun started: MPI, in host memory (weft/comm/launch.h)
//   on_device(...)          NCCL between NVIDIA GPUs, in device memory on a stream of its own; host memory still travels by MPI
//
// Only moves are offered, no sums: the order of an engine's own reduction depends on the number of ranks. What is to be added is
// moved to one rank and added there in an order of ours (weft/train/gradient_exchange.h).
//
// Every function that moves bytes is collective: all ranks call the same ones in the same order. If a rank does not answer within
// the timeout, the others end with a message that names it and its host.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/tensor/view.h"

namespace weft {

class Device;
class Stream;

struct Outgoing {
  int to;
  View data;  // contiguous
};
struct Incoming {
  int from;
  MutView data;  // contiguous
};
struct HostOutgoing {
  int to;
  std::span<const std::byte> bytes;
};
struct HostIncoming {
  int from;
  std::span<std::byte> bytes;
};

// Messages under way.
class Transfer {
 public:
  virtual ~Transfer() = default;  // waits
  // Work launched on the stream after this sees what was received, and may overwrite what was sent.
  virtual void wait() = 0;
  // Lets the engine go on, without waiting.
  virtual void progress() {}
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool first() const { return rank_ == 0; }      // prints, logs and writes
  virtual std::string description() const = 0;   // "Open MPI 4.1.4"; "" for one process
  virtual std::string host(int rank) const = 0;  // its host name
  std::string name_of(int rank) const;           // "rank 3 on node-b"

  // Starts sending and receiving device memory: what was launched on the stream before this is sent. Both sides name the same
  // messages between two ranks in the same order, with the same sizes. A message to oneself is not allowed.
  std::unique_ptr<Transfer> start(Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive);

  // The same for host memory, and waits.
  void exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive);

  // Of host memory, made of exchanges.
  void barrier();
  void broadcast(std::span<std::byte> bytes, int root);
  std::vector<std::string> all_gather(const std::string& own);  // of any lengths, by rank
  template <class T>
  std::vector<T> all_gather_values(const T& own) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<size_t>(size_));
    gather_bytes(&own, sizeof(T), all.data());
    return all;
  }
  // Part r of `send` goes to rank r; part r of the result came from rank r.
  std::vector<std::string> all_to_all(const std::vector<std::string>& send);

  // Seconds that this rank has waited for others or for bytes under way: communication that nothing hid.
  double seconds_waited() const { return seconds_waited_; }

  // Ends all ranks at once with this exit status. The message has been printed.
  [[noreturn]] virtual void abort(int status) = 0;

  // For a communicator made of this one, whose own messages can be late. Any thread may call these, one at a time and not during an
  // exchange.
  virtual void answer() {}                                // answers silent_ranks() of others: called now and then while this rank waits
  virtual std::vector<int> silent_ranks() { return {}; }  // the ranks that do not answer within a second

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual std::unique_ptr<Transfer> do_start(Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive) = 0;
  virtual void do_exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive) = 0;
  void count_wait(double seconds) { seconds_waited_ += seconds; }

 private:
  void gather_bytes(const void* own, size_t bytes, void* all);

  const int rank_, size_;
  double seconds_waited_ = 0;
};

// One process.
Communicator& alone();

// One of `size` ranks that do not exist: messages are dropped, so that a plan can count the memory of one rank.
std::unique_ptr<Communicator> planned_ranks(int size, int rank = 0);

}  // namespace weft
