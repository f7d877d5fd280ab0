// Answers one generation request: submits the job, waits for its events and writes them, as one JSON object or as server-sent events.
#pragma once

#include <httplib.h>

#include <chrono>
#include <functional>
#include <memory>

#include "weft/serve/answer.h"
#include "weft/serve/connection.h"
#include "weft/serve/metrics.h"
#include "weft/serve/scheduler.h"

namespace weft::serve {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Clock = std::chrono::steady_clock;

  // Uses the connection of the calling thread.
  Exchange(Answer answer, Scheduler& scheduler, Metrics& metrics, std::chrono::duration<double> timeout);
  ~Exchange();  // cancels a job that has not ended

  // Submits the job. Without streaming, the answer is in the response on return. With streaming, the server writes it after the return
  // while the job runs; errors that occur before the first event are thrown as ApiError, later ones become an event.
  void run(httplib::Response& response);

 private:
  bool write_stream(httplib::DataSink& sink);
  // Calls `each` for all events of the job; returns false as soon as `each` does. Throws if the client has left or the time is up.
  bool follow(const std::function<bool(const TokenEvent&)>& each);
  bool complete();
  void wait();

  Answer answer_;
  const Connection& client_;
  Scheduler& scheduler_;
  Metrics& metrics_;
  const Clock::time_point start_, deadline_;
  std::vector<TokenEvent> events_;
  bool first_ = true, ended_ = false;
};

}  // namespace weft::serve
