#include "weft/comm/mpi/messages.h"

#include <algorithm>
#include <thread>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "weft/base/check.h"
#include "weft/comm/mpi/process.h"

namespace weft::mpi {
namespace {

// A longer message travels as several: a count is an int, and the timeout runs from the last piece that has arrived.
constexpr size_t kPiece = size_t(64) << 20;
constexpr int kTag = 0;

// Measured with 2 and 4 ranks on 2 cores: docs/lab/distributed.md.
constexpr std::chrono::microseconds kShortest(10), kLonger(200), kLongest(2000);
constexpr std::chrono::seconds kLong(1);

template <class F>
void for_each_piece(size_t bytes, F&& call) {
  for (size_t at = 0; at == 0 || at < bytes; at += kPiece) call(at, int(std::min(kPiece, bytes - at)));
}

}  // namespace

void Messages::add(MPI_Request request, Message message) {
  requests_.push_back(request);
  messages_.push_back(message);
  indices_.emplace_back();
  statuses_.emplace_back();
  ++left_;
}

void Messages::send(MPI_Comm communicator, int to, const std::byte* data, size_t bytes) {
  const Library& mpi = library();
  for_each_piece(bytes, [&](size_t at, int count) {
    MPI_Request request;
    expect_success(mpi.Isend(data + at, count, mpi.byte, to, kTag, communicator, &request), "MPI_Isend");
    add(request, {to, -1});
  });
}

void Messages::receive(MPI_Comm communicator, int from, std::byte* data, size_t bytes) {
  const Library& mpi = library();
  for_each_piece(bytes, [&](size_t at, int count) {
    MPI_Request request;
    expect_success(mpi.Irecv(data + at, count, mpi.byte, from, kTag, communicator, &request), "MPI_Irecv");
    add(request, {from, count});
  });
}

bool Messages::test() {
  if (done()) return false;
  const Library& mpi = library();
  int finished = 0;
  const int code = mpi.Testsome(int(requests_.size()), requests_.data(), &finished, indices_.data(), statuses_.data());
  int kind = MPI_SUCCESS;
  if (code != MPI_SUCCESS) mpi.Error_class(code, &kind);
  const bool in_statuses = kind == MPI_ERR_IN_STATUS;
  if (!in_statuses) expect_success(code, "MPI_Testsome");
  for (int i = 0; i < finished; ++i) {
    const Message& message = messages_[size_t(indices_[size_t(i)])];
    MPI_Status& status = statuses_[size_t(i)];
    if (in_statuses && status.MPI_ERROR != MPI_SUCCESS)
      abort_with(join("a message ", message.received < 0 ? "to" : "from", " rank ", message.other, " failed: ", text_of(status.MPI_ERROR)));
    int count = 0;
    if (message.received >= 0) mpi.Get_count(&status, mpi.byte, &count);
    if (message.received >= 0 && count != message.received)
      abort_with(
          join("rank ", message.other, " sent ", count, " bytes, expected ", message.received, ": the ranks do not run the same steps"));
  }
  left_ -= size_t(finished);
  return finished > 0;
}

std::vector<int> Messages::pending_ranks() const {
  std::vector<int> ranks;
  for (size_t i = 0; i < requests_.size(); ++i)
    if (requests_[i] != library().request_null) ranks.push_back(messages_[i].other);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Backoff::~Backoff() {
#ifdef __linux__
  if (slack_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_));
#endif
}

Backoff::Clock::time_point Backoff::pause(Clock::time_point since) {
  const auto now = Clock::now();
  const auto waited = now - since;
  if (waited < spin_) return now;
#ifdef __linux__
  if (slack_ < 0) {  // 50 us by default: more than the sleeps
    slack_ = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1000ul);
  }
#endif
  std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 16, kShortest, waited > kLong ? kLongest : kLonger));
  return now;
}

}  // namespace weft::mpi
