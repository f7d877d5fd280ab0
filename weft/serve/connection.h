// A client's connection: its socket as a stream of cpp-httplib, with the limits of size and time that cpp-httplib does not have.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>

namespace weft::serve {

struct ConnectionLimits {
  int idle = 5;           // seconds until the first byte of a request
  int stall = 30;         // seconds for a request's head, and without a byte of a body or an answer
  double request = 600;   // seconds for a request's body
  size_t head = 1 << 16;  // bytes of a request's head
};

class Connection final : public httplib::Stream {
 public:
  // Owns `socket`, which must not block. `stop`: a descriptor that becomes readable when the server stops. `refused`: it is above the limit
  // of connections: its requests are answered with 503.
  Connection(int socket, int stop, const ConnectionLimits& limits, bool refused);
  ~Connection() override;
  Connection(const Connection&) = delete;

  // The connection that the calling thread serves.
  static Connection& current();

  // Waits for the next request; false: there is none (the client has left, is idle, or the server stops).
  bool wait_for_request();
  void head_done();    // cpp-httplib has read the head; a body may follow
  void close_after();  // there is no further request: what follows this one is not known
  bool closes() const { return closes_; }
  bool refused() const { return refused_; }
  bool left() const;  // the client has closed its side
  void abandon();     // ends both directions at once

  // For cpp-httplib. Later versions than 0.11 have more of them.
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
  ssize_t give_up(int status);

  const int socket_, stop_;
  const ConnectionLimits limits_;
  const bool refused_;
  bool in_head_ = true, closes_ = false;
  bool answered_ = false;       // here, and not by cpp-httplib
  Clock::time_point deadline_;  // of the head, or of the body
  size_t head_ = 0;             // bytes of it
  std::array<char, 4096> buffer_;
  size_t at_ = 0, end_ = 0;  // of what was received and not read yet
};

}  // namespace weft::serve
