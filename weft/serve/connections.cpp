#include "weft/serve/connections.h"

#include <system_error>
#include <thread>

namespace weft::serve {
namespace {

constexpr int kMostRefused = 32;  // threads that only answer 503
thread_local bool is_refused = false;

}  // namespace

bool Connections::refused() { return is_refused; }

Connections::Enqueued Connections::enqueue(std::function<void()> serve) {
  bool above = false;
  {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return open_ < most_ + kMostRefused; });
    above = ++open_ > most_;
  }
  try {
    std::thread([this, serve, above] { run(serve, above); }).detach();
  } catch (const std::system_error&) {  // the system has no more threads
    run(serve, true);
    is_refused = false;
  }
  return Enqueued(true);
}

void Connections::run(const std::function<void()>& serve, bool refused) {
  is_refused = refused;
  try {
    serve();
  } catch (...) {  // of one connection; the others go on
  }
  const std::lock_guard lock(mutex_);
  --open_;
  ended_.notify_all();
}

void Connections::shutdown() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return open_ == 0; });
}

}  // namespace weft::serve
