// The HTTP side of `weft serve`: OpenAI's API, the chat page and the metrics.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/serve/metrics.h"
#include "weft/serve/scheduler.h"
#include "weft/serve/served_model.h"

namespace weft::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                    // 0: any free one
  std::string api_key;                // "": none is needed
  size_t max_body = size_t(8) << 20;  // bytes of a request
  double timeout = 600;               // seconds of a request, in the queue and running
  int connections = 256;              // at once; further ones are answered with 503
  int idle = 5;                       // seconds after which a connection without a request is closed
  int stall = 30;                     // seconds without a byte read or written after which a connection in a request is closed
};

class HttpServer {
 public:
  // All must outlive it.
  HttpServer(HttpOptions options, const ServedModel& model, Scheduler& scheduler, Metrics& metrics);
  ~HttpServer();

  int bind();              // the port. Throws, naming host and port, if it is not free
  void start();            // accepts connections in a thread of its own, from the return on
  void stop();             // accepts no more; requests that run are finished
  void serve(int socket);  // a connection that was accepted elsewhere, in this thread
  void join();             // after stop(): waits until all connections have ended

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The chat page (weft/serve/chat.html), embedded at build time.
std::string_view chat_page();

}  // namespace weft::serve
