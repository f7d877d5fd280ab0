// A client's connection: a socket as a cpp-httplib stream, with limits of size and time that cpp-httplib lacks. The head of a request is
// received and checked here (weft/serve/request_head.h); cpp-httplib can read only as many bytes of the body as the head declares.
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
  int stall = 30;            // seconds for the head of a request; seconds without progress in a body or an answer
  double request = 600;      // seconds for the body of a request; total seconds for which writing an answer may block
  size_t head = 1 << 16;     // bytes of the head of a request
  size_t chunked = 1 << 24;  // bytes of a chunked body, including the lines between chunks
};

class Connection final : public httplib::Stream {
 public:
  // Owns `socket`, which must be non-blocking. `stop`: a descriptor that becomes readable when the server stops. `refused`: the connection
  // is above the limit of connections; its requests are answered with 503.
  Connection(int socket, int stop, const ConnectionLimits& limits, bool refused);
  ~Connection() override;
  Connection(const Connection&) = delete;

  // The connection that the calling thread serves.
  static Connection& current();

  // Waits for the next request and receives its head. Returns false if there is none (the client has left or is idle, or the server stops),
  // if its head was refused, or if the previous body was not read to its end, so that the start of the next request is unknown.
  bool wait_for_request();
  void body_done() { body_pending_ = false; }             // the request's body was read whole
  void close_after() { closes_ = true; }                  // no request follows
  bool ends() const { return closes_ || body_pending_; }  // the connection closes after this answer
  bool takes_chunks() const { return !head_.version_1_0; }
  int refused_status() const { return refused_status_; }  // the status with which a head was refused; 0: none
  bool refused() const { return refused_; }
  bool left() const;      // the client has closed its side
  bool stopping() const;  // the server stops; it does not wait for requests that are still arriving

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
  Clock::time_point deadline_;           // of the head, then of the body
  Clock::duration waited_for_reader_{};  // time for which writing the answer was blocked
  RequestHead head_;
  size_t head_at_ = 0;  // bytes of head_.text that were read
  uint64_t body_ = 0;   // bytes of the body that were read
  std::array<char, 4096> buffer_;
  size_t at_ = 0, end_ = 0;  // range of buffer_ that was received and not yet read
};

}  // namespace weft::serve
