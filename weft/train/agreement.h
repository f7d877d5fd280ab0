// Work of several ranks that ends the same way on all of them: with success, with one error, or with a stop.
//
//   Agreement ranks(communicator);
//   ranks.all([&] { data = read(path); });          // fails on rank 3: every rank throws "rank 3 on node-b: path: ..."
//   ranks.first([&] { write(path, ...); });         // rank 0 alone; the others wait
//
// A rank that waits for another's work does not run into its timeout as long as that work reports progress (weft/base/progress.h): the
// worker sends signs of life, messages so small that MPI sends them before they are received. One process simply does the work; its
// errors pass unchanged.
//
// The work itself must not use the communicator: a rank that failed would be missing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/communicator.h"

namespace weft {

// Thrown on every rank at the same place: one of them is to print it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

class Agreement {
 public:
  // `timeout`: of the communicator.
  explicit Agreement(Communicator& communicator, std::chrono::seconds timeout = std::chrono::seconds(600))
      : communicator_(communicator), timeout_(timeout) {}

  Communicator& communicator() const { return communicator_; }
  bool several() const { return communicator_.size() > 1; }

  // Every rank works. If it throws on any, all ranks throw: AgreedError, or Stopped if one was stopped and none failed. An error that
  // not all ranks have begins with the rank and its host.
  void all(const std::function<void()>& work) const { some(true, work); }
  // The same where only some ranks have work: an error that all of those have is not one of single ranks.
  void some(bool takes_part, const std::function<void()>& work) const;

  // Rank 0 works; its error is thrown by all. Meanwhile it may read bytes of other ranks: `serve` answers on those.
  struct Request {
    int64_t item = 0, offset = 0, bytes = 0;
  };
  using Serve = std::function<void(const Request& request, std::span<std::byte> into)>;
  void first(const std::function<void()>& work, const Serve& serve = {}) const;
  // In rank 0's work: the bytes that `from` serves.
  void read(int from, const Request& request, std::span<std::byte> into) const;

  // The values of rank 0, on every rank.
  template <class T>
  T of_first(T value) const {
    communicator_.broadcast(std::as_writable_bytes(std::span(&value, 1)), 0);
    return value;
  }

 private:
  struct Message;
  struct Result;
  class Alive;
  Result result_of(const std::function<void()>& work) const;
  void send(int to, const Message& message, const std::string& text = {}) const;
  void send_to_others(const Message& message, const std::string& text = {}, int except = 0) const;
  Message receive(int from) const;
  std::string receive_text(int from, int64_t bytes) const;
  std::string wait_for_first(const Serve& serve) const;
  void conclude(const std::vector<Result>& results) const;
  static std::string packed(const std::vector<Result>& results);
  static std::vector<Result> unpacked(std::string_view text);

  Communicator& communicator_;
  std::chrono::duration<double> timeout_;
};

}  // namespace weft
