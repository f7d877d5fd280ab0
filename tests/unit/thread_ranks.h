// Ranks that are threads of one process, each with its own CPU device: a Communicator for tests.
//
// A message is copied late, when its receiver waits for it, straight from the sender's memory: memory that is overwritten between start
// and wait shows in the results. With a seed other than 0, ranks pause at random wherever they talk, so that messages come in other orders.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "weft/base/check.h"
#include "weft/comm/communicator.h"

namespace weft {

class ThreadRanks {
 public:
  ThreadRanks(int size, uint32_t seed) : size_(size), seed_(seed) {}

  // Calls `work` once for every rank, each on its own thread; throws what the first of them threw.
  void run(const std::function<void(Communicator&)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        try {
          Rank self(*this, rank, seed_);
          work(self);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!failure_) failure_ = std::current_exception();
          changed_.notify_all();
        }
      });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Message {
    const std::byte* data;
    size_t bytes;
    bool taken = false;
    std::vector<std::byte> copy = {};  // of a small one
  };
  using Posted = std::shared_ptr<Message>;
  struct Expected {
    int from;
    std::byte* data;
    size_t bytes;
    int64_t number;  // of all that come from this rank
  };

  class Rank : public Communicator {
   public:
    Rank(ThreadRanks& all, int rank, uint32_t seed) : Communicator(rank, all.size_), all_(all), random_(seed * 977 + uint32_t(rank)) {}
    std::string description() const override { return "threads"; }
    std::string host(int) const override { return "this process"; }
    [[noreturn]] void abort(int) override { fail(ErrorCode::unsupported, "thread_ranks", "abort"); }

    // Messages of at most `copied` bytes are copied.
    std::pair<std::vector<Posted>, std::vector<Expected>> post(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive,
                                                               size_t copied = 0) {
      pause();
      std::pair<std::vector<Posted>, std::vector<Expected>> under_way;
      const std::lock_guard lock(all_.mutex_);
      for (const HostOutgoing& message : send) {
        const auto posted = std::make_shared<Message>(Message{message.bytes.data(), message.bytes.size()});
        if (posted->bytes <= copied) {
          posted->copy.assign(message.bytes.begin(), message.bytes.end());
          posted->data = posted->copy.data();
        }
        all_.posted_[{rank(), message.to}].push_back(posted);
        under_way.first.push_back(posted);
      }
      for (const HostIncoming& message : receive)
        under_way.second.push_back({message.from, message.bytes.data(), message.bytes.size(), received_[message.from]++});
      all_.changed_.notify_all();
      return under_way;
    }
    void finish(const std::vector<Posted>& sent, const std::vector<Expected>& expected) {
      pause();
      const auto start = std::chrono::steady_clock::now();
      std::unique_lock lock(all_.mutex_);
      for (const Expected& each : expected) {
        auto& posted = all_.posted_[{each.from, rank()}];
        all_.wait(lock, [&] { return int64_t(posted.size()) > each.number; });
        Message& message = *posted[size_t(each.number)];
        check(message.bytes == each.bytes, "thread_ranks", "rank ", rank(), " expected ", each.bytes, " bytes from rank ", each.from,
              ", which sent ", message.bytes);
        if (each.bytes > 0) std::memcpy(each.data, message.data, each.bytes);
        message.taken = true;
      }
      all_.changed_.notify_all();
      all_.wait(lock, [&] {
        for (const Posted& each : sent)
          if (!each->taken) return false;
        return true;
      });
      count_wait(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }

   protected:
    class UnderWay : public Transfer {
     public:
      UnderWay(Rank& rank, std::pair<std::vector<Posted>, std::vector<Expected>> messages) : rank_(rank), messages_(std::move(messages)) {}
      ~UnderWay() override {
        try {
          wait();
        } catch (...) {  // another rank has failed, which run() reports
        }
      }
      void wait() override {
        if (done_) return;
        done_ = true;
        rank_.finish(messages_.first, messages_.second);
      }

     private:
      Rank& rank_;
      std::pair<std::vector<Posted>, std::vector<Expected>> messages_;
      bool done_ = false;
    };
    static std::byte* memory(const View& view) {
      return static_cast<std::byte*>(view.buffer->handle()) + view.buffer->offset() + view.offset;
    }
    std::unique_ptr<Transfer> do_start(Stream&, std::span<const Outgoing> send, std::span<const Incoming> receive) override {
      std::vector<HostOutgoing> out;
      std::vector<HostIncoming> in;
      const auto bytes = [](const View& view) { return size_t(view.numel() * size_of(view.dtype)); };
      for (const Outgoing& each : send) out.push_back({each.to, {memory(each.data), bytes(each.data)}});
      for (const Incoming& each : receive) in.push_back({each.from, {memory(each.data), bytes(each.data)}});
      return std::make_unique<UnderWay>(*this, post(out, in));
    }
    // Small messages of a rank that receives nothing leave at once, as with MPI: a sign of life waits for nobody.
    void do_exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive) override {
      if (receive.empty()) return leave(send);
      const auto [sent, expected] = post(send, receive);
      finish(sent, expected);
    }

   private:
    void leave(std::span<const HostOutgoing> send) {
      constexpr size_t kSmall = 256;
      const std::vector<Posted> sent = post(send, {}, kSmall).first;
      std::vector<Posted> large;
      std::copy_if(sent.begin(), sent.end(), std::back_inserter(large), [](const Posted& each) { return each->bytes > kSmall; });
      finish(large, {});
    }
    void pause() {
      if (all_.seed_ != 0 && random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 400));
    }

    ThreadRanks& all_;
    std::mt19937 random_;
    std::map<int, int64_t> received_;  // by sender
  };

  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, const Condition& condition) {
    const bool done = changed_.wait_for(lock, std::chrono::seconds(60), [&] { return failure_ || condition(); });
    check(done && !failure_, "thread_ranks", done ? "another rank has failed" : "another rank did not answer within 60 seconds");
  }

  const int size_;
  const uint32_t seed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<Posted>> posted_;  // by sender and receiver, all that were ever sent
  std::exception_ptr failure_;
};

}  // namespace weft
