#include "weft/comm/communicator.h"

#include <cstdlib>
#include <cstring>

#include "weft/base/check.h"

namespace weft {
namespace {

class Nothing : public Transfer {
 public:
  void wait() override {}
};

class NoOthers : public Communicator {
 public:
  NoOthers(int rank, int size) : Communicator(rank, size) {}
  std::string description() const override { return ""; }
  std::string host(int) const override { return "this host"; }
  [[noreturn]] void abort(int status) override { std::exit(status); }

 protected:
  std::unique_ptr<Transfer> do_start(Stream&, std::span<const Outgoing>, std::span<const Incoming>) override {
    return std::make_unique<Nothing>();
  }
  void do_exchange(std::span<const HostOutgoing>, std::span<const HostIncoming> receive) override {
    for (const HostIncoming& message : receive) std::memset(message.bytes.data(), 0, message.bytes.size());
  }
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

}  // namespace

std::string Communicator::name_of(int rank) const { return join("rank ", rank, " on ", host(rank)); }

std::unique_ptr<Transfer> Communicator::start(Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive) {
  for (const Outgoing& message : send)
    check(message.to >= 0 && message.to < size_ && message.to != rank_ && message.data.contiguous(), "communicator", "a message to rank ",
          message.to, " of ", size_, ", expected contiguous memory and another rank than ", rank_);
  for (const Incoming& message : receive)
    check(message.from >= 0 && message.from < size_ && message.from != rank_ && message.data.contiguous(), "communicator",
          "a message from rank ", message.from, " of ", size_, ", expected contiguous memory and another rank than ", rank_);
  return do_start(stream, send, receive);
}

void Communicator::exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive) {
  if (size_ == 1) return;  // alone() is shared by threads: nothing of it may change
  const auto start = std::chrono::steady_clock::now();
  do_exchange(send, receive);
  count_wait(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

void Communicator::barrier() { all_gather_values(char(0)); }

void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  std::vector<HostOutgoing> send;
  std::vector<HostIncoming> receive;
  if (rank_ != root) receive.push_back({root, bytes});
  for (int to = 0; to < size_ && rank_ == root; ++to)
    if (to != root) send.push_back({to, bytes});
  exchange(send, receive);
}

void Communicator::gather_bytes(const void* own, size_t bytes, void* all) {
  std::vector<HostOutgoing> send;
  std::vector<HostIncoming> receive;
  std::byte* const to = static_cast<std::byte*>(all);
  std::memcpy(to + size_t(rank_) * bytes, own, bytes);
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    send.push_back({other, {static_cast<const std::byte*>(own), bytes}});
    receive.push_back({other, {to + size_t(other) * bytes, bytes}});
  }
  exchange(send, receive);
}

std::vector<std::string> Communicator::all_gather(const std::string& own) {
  return all_to_all(std::vector<std::string>(static_cast<size_t>(size_), own));
}

std::vector<std::string> Communicator::all_to_all(const std::vector<std::string>& send) {
  check(int(send.size()) == size_, "communicator", "all_to_all got ", send.size(), " parts, expected one for each of ", size_, " ranks");
  std::vector<uint64_t> lengths, expected(send.size());
  for (const std::string& part : send) lengths.push_back(part.size());
  std::vector<std::string> received(send.size());
  std::vector<HostOutgoing> sizes_out, out;
  std::vector<HostIncoming> sizes_in, in;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    sizes_out.push_back({other, std::as_bytes(std::span(&lengths[size_t(other)], 1))});
    sizes_in.push_back({other, std::as_writable_bytes(std::span(&expected[size_t(other)], 1))});
  }
  exchange(sizes_out, sizes_in);
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    received[size_t(other)].resize(expected[size_t(other)]);
    out.push_back({other, bytes_of(send[size_t(other)])});
    in.push_back({other, bytes_of(received[size_t(other)])});
  }
  exchange(out, in);
  received[size_t(rank_)] = send[size_t(rank_)];
  return received;
}

Communicator& alone() {
  static NoOthers one(0, 1);
  return one;
}

std::unique_ptr<Communicator> planned_ranks(int size, int rank) { return std::make_unique<NoOthers>(rank, size); }

}  // namespace weft
