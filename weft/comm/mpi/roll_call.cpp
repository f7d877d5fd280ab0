#include "weft/comm/mpi/roll_call.h"

#include "weft/comm/mpi/process.h"

namespace weft::mpi {

void RollCall::send(int to, long long number) {
  const Library& mpi = library();
  Sent& sent = sent_.emplace_back(Sent{number, mpi.request_null});
  expect_success(mpi.Isend(&sent.number, sizeof sent.number, mpi.byte, to, 0, communicator_, &sent.request), "MPI_Isend");
}

void RollCall::ask() {
  question_ += 2;
  for (int other = 0; other < int(answered_.size()); ++other) {
    answered_[size_t(other)] = false;
    if (other != rank_) send(other, question_);
  }
}

void RollCall::poll() {
  const Library& mpi = library();
  int waiting = 1;
  MPI_Status status;
  while (expect_success(mpi.Iprobe(MPI_ANY_SOURCE, 0, communicator_, &waiting, &status), "MPI_Iprobe"), waiting) {
    long long number = 0;
    expect_success(mpi.Recv(&number, sizeof number, mpi.byte, status.MPI_SOURCE, 0, communicator_, &status), "MPI_Recv");
    if (number % 2 != 0)
      send(status.MPI_SOURCE, number + 1);
    else if (number == question_ + 1)
      answered_[size_t(status.MPI_SOURCE)] = true;
  }
  while (!sent_.empty()) {
    int finished = 0, index = 0;
    expect_success(mpi.Testsome(1, &sent_.front().request, &finished, &index, &status), "MPI_Testsome");
    if (!finished) break;
    sent_.pop_front();
  }
}

}  // namespace weft::mpi
