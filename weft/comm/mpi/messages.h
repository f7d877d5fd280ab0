// A set of messages under way, and how a rank waits for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "weft/comm/mpi/library.h"

namespace weft::mpi {

// Messages that were started and have not all arrived. Messages between two ranks on one communicator match in the order in which both
// have started them.
class Messages {
 public:
  Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // The memory belongs to MPI until done().
  void send(MPI_Comm communicator, int to, const std::byte* data, size_t bytes);
  void receive(MPI_Comm communicator, int from, std::byte* data, size_t bytes);

  bool done() const { return left_ == 0; }
  // Lets MPI go on. Returns whether messages have arrived or left since the last call. A message of another length than expected ends all
  // ranks.
  bool test();
  // The ranks whose messages are not done, ascending.
  std::vector<int> pending_ranks() const;

 private:
  struct Message {
    int other;
    int received;  // bytes that are to come; -1: sent
  };
  void add(MPI_Request request, Message message);

  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  size_t left_ = 0;
};

// Pauses between two tests: none for a short while, then sleeps that grow with the time waited. Cores are shared: a rank that waits must
// not take the time of the rank that it waits for. (sched_yield would hand the core to unrelated processes for whole time slices.)
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Backoff(std::chrono::microseconds spin) : spin_(spin) {}  // how long there is no pause
  ~Backoff();
  Backoff(const Backoff&) = delete;
  Backoff& operator=(const Backoff&) = delete;

  // Returns the time; `since` is when the wait began or a message came last.
  Clock::time_point pause(Clock::time_point since);

 private:
  const std::chrono::microseconds spin_;
  int slack_ = -1;  // the thread's timer slack before the first sleep
};

}  // namespace weft::mpi
