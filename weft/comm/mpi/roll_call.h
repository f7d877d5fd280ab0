// Finds out which rank keeps the others waiting. Many wait at once, most of them for a rank that waits itself: so a rank whose timeout is
// over asks all others, and ranks that wait answer. Those that do not are named.
#pragma once

#include <deque>
#include <vector>

#include "weft/comm/mpi/library.h"

namespace weft::mpi {

class RollCall {
 public:
  // `communicator` carries nothing else.
  RollCall(MPI_Comm communicator, int rank, int size) : communicator_(communicator), rank_(rank), answered_(size_t(size)) {}

  // Answers the ranks that ask and notes answers. Called now and then by every rank that waits.
  void poll();

  // Asks all others.
  void ask();
  // Whether a rank has answered since ask(); true for the own.
  bool answered(int rank) const { return rank == rank_ || answered_[size_t(rank)]; }

 private:
  // A question has an odd number, its answer the next.
  void send(int to, long long number);

  struct Sent {
    long long number;
    MPI_Request request;
  };
  MPI_Comm communicator_;
  int rank_;
  std::vector<bool> answered_;
  long long question_ = -1;
  std::deque<Sent> sent_;  // messages under way; addresses stay
};

}  // namespace weft::mpi
