// One generation request on its connection: submits the job, waits for its events and writes them, as one JSON object or as SSE.
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

  // For the connection that the calling thread serves.
  Exchange(Answer answer, Scheduler& scheduler, Metrics& metrics, std::chrono::duration<double> timeout);
  ~Exchange();  // cancels a job that has not ended

  // Submits the job. A whole answer is in the response on return; a stream is written by the server after it, while the job runs. Throws
  // ApiErrors: all of a whole answer, and those of a stream that are known before its first byte.
  void run(httplib::Response& response);

 private:
  bool write_stream(httplib::DataSink& sink);
  // Calls `each` for the job's events until all have come; returns false if `each` does. Throws if the client has left or time is up.
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
