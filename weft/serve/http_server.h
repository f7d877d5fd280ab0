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
  int port = 8080;                    // 0: any free port
  std::string api_key;                // "": no key required
  size_t max_body = size_t(8) << 20;  // bytes of a request's body
  double timeout = 600;               // seconds for a request, in the queue and running
  int connections = 256;              // open at once; further ones are answered with 503
  int idle = 5;                       // seconds until a connection without a request is closed
  int stall = 30;                     // seconds without a byte read or written until a connection is closed during a request
};

class HttpServer {
 public:
  // The model, the scheduler and the metrics must outlive the server.
  HttpServer(HttpOptions options, const ServedModel& model, Scheduler& scheduler, Metrics& metrics);
  ~HttpServer();

  int bind();              // returns the port; throws with host and port if it cannot listen there
  void start();            // starts a thread that accepts connections
  void stop();             // accepts no further connections; running requests are finished
  void serve(int socket);  // serves a connection accepted elsewhere, in the calling thread
  void join();             // after stop(): waits until all connections have ended

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The chat page (weft/serve/chat.html), embedded at build time.
std::string_view chat_page();

}  // namespace weft::serve
