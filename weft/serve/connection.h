// A client's connection: its socket as a stream of cpp-httplib, with the limits of size and time that cpp-httplib does not have. A
// request's head is received and checked here (weft/serve/request_head.h); of its body, cpp-httplib reads no byte more than the head says.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <string>

#include "weft/serve/api_error.h"
#include "weft/serve/request_head.h"

namespace weft::serve {

struct ConnectionLimits {
  int idle = 5;              // seconds until the first byte of a request
  int stall = 30;            // seconds for a request's head, and without a byte of a body or an answer
  double request = 600;      // seconds for a request's body, and seconds in which an answer waits for its reader
  size_t head = 1 << 16;     // bytes of a request's head
  size_t chunked = 1 << 24;  // bytes of a chunked body, with the chunks' own lines
};

class Connection final : public httplib::Stream {
 public:
  // Owns `socket`, which must not block. `stop`: a descriptor that becomes readable when the server stops. `refused`: the connection is
  // above the limit, and its requests are answered with 503.
  Connection(int socket, int stop, const ConnectionLimits& limits, bool refused);
  ~Connection() override;
  Connection(const Connection&) = delete;

  // The connection that the calling thread serves.
  static Connection& current();

  // Waits for the next request and receives its head. False: there is none (the client has left, is idle, or the server stops), its head
  // was refused, or the body before it was not read to its end, so that the next request's start is unknown.
  bool wait_for_request();
  void body_done() { body_pending_ = false; }             // the request's body was read whole
  void close_after() { closes_ = true; }                  // there is no further request
  int refused_status() const { return refused_status_; }  // of a head that was answered here; 0: none
  bool refused() const { return refused_; }
  bool left() const;  // the client has closed its side
  void abandon();     // ends both directions at once

  // The interface of cpp-httplib's Stream; versions after 0.11 have further functions.
  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }
  bool wait_readable() const { return is_readable(); }
  bool wait_writable() const { return is_writable(); }
  time_t duration() const { return 0; }

 private:
  using Clock = std::chrono::steady_clock;

  bool wait(short events, Clock::time_point until, bool for_stop = false) const;
  Clock::time_point stalls() const { return Clock::now() + std::chrono::seconds(limits_.stall); }
  bool fill(Clock::time_point until);
  bool receive_head(std::string& head);
  void refuse_head(const ApiError& error);

  const int socket_, stop_;
  const ConnectionLimits limits_;
  const bool refused_;
  bool closes_ = false, body_pending_ = false;
  int refused_status_ = 0;
  Clock::time_point deadline_;           // of the head, or of the body
  Clock::duration waited_for_reader_{};  // while the answer was written
  RequestHead head_;
  size_t head_at_ = 0;  // of head_.text: read
  uint64_t body_ = 0;   // bytes of the body that were read
  std::array<char, 4096> buffer_;
  size_t at_ = 0, end_ = 0;  // of what was received and not read yet
};

}  // namespace weft::serve
