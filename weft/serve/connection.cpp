#include "weft/serve/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "weft/serve/answer.h"

namespace weft::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLinger{1000};  // time for a client to read the answer to a request that was not read completely
constexpr int kRefusedIdle = 1;        // idle limit, in seconds, of refused connections, of which few can be open
#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#else
constexpr int kSendFlags = MSG_DONTWAIT;  // cpp-httplib's server ignores SIGPIPE
#endif

thread_local Connection* served = nullptr;

const char* reason_of(int status) {
  switch (status) {
    case 408: return "Request Timeout";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 431: return "Request Header Fields Too Large";
    default: return "Bad Request";
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Connection::Connection(int socket, int stop, const ConnectionLimits& limits, bool refused)
    : socket_(socket), stop_(stop), limits_(limits), refused_(refused) {
  served = this;
}

// Discards what the client still sends: closing a socket with unread bytes resets the connection, and the client may lose the answer.
Connection::~Connection() {
  served = nullptr;
  if (closes_ && ::shutdown(socket_, SHUT_WR) == 0) {
    const Clock::time_point until = Clock::now() + kLinger;
    while (wait(POLLIN, until) && ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) > 0) {
    }
  }
  ::close(socket_);
}

Connection& Connection::current() { return *served; }

// Waits for one of `events`. Returns false at the time `until`, or, with `for_stop`, when the server stops.
bool Connection::wait(short events, Clock::time_point until, bool for_stop) const {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    pollfd polled[2] = {{socket_, events, 0}, {stop_, POLLIN, 0}};
    const int ready = ::poll(polled, for_stop ? 2 : 1, int(std::clamp<int64_t>(left.count(), 0, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && polled[0].revents != 0;
  }
}

bool Connection::wait_for_request() {
  closes_ = ends();
  const Clock::time_point idle = Clock::now() + std::chrono::seconds(refused_ ? kRefusedIdle : limits_.idle);
  if (closes_ || (at_ == end_ && !(wait(POLLIN, idle, true) && fill(idle)))) return false;
  deadline_ = stalls();
  try {
    std::string head;
    if (!receive_head(head)) return false;
    head_ = parse_head(head);
  } catch (const ApiError& error) {
    refuse_head(error);
    return false;
  }
  head_at_ = body_ = 0;
  body_pending_ = head_.has_body();
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.request));
  waited_for_reader_ = {};
  return true;
}

// Receives the lines up to the first empty one, and skips empty lines before them. False: the client has left, or the server stops.
bool Connection::receive_head(std::string& head) {
  const auto error = [](int status, const char* message) { return api_error(status, message, "invalid_request_error"); };
  size_t received = 0, line = 0;  // line: characters of the current line
  for (;;) {
    if (at_ == end_ && !fill(deadline_)) {
      if (Clock::now() >= deadline_) throw error(408, "the request's head did not arrive in time");
      return false;
    }
    if (++received > limits_.head) throw error(431, "the request's head is too long");
    const char c = buffer_[at_++];
    const bool ends = c == '\r' || c == '\n';
    if (head.empty() && ends) continue;
    head += c;
    if (c == '\n' && std::exchange(line, 0) == 0) return true;
    if (!ends) ++line;
  }
}

void Connection::refuse_head(const ApiError& error) {
  const std::string body = error_json(error);
  const std::string answer = "HTTP/1.1 " + std::to_string(error.status) + " " + reason_of(error.status) +
                             "\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                             "\r\n\r\n" + body;
  [[maybe_unused]] const ssize_t sent = ::send(socket_, answer.data(), answer.size(), kSendFlags);
  closes_ = true;
  refused_status_ = error.status;
}

bool Connection::left() const {
  char byte;
  const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && !would_block());
}

bool Connection::stopping() const {
  pollfd polled = {stop_, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

bool Connection::is_readable() const { return at_ < end_ || wait(POLLIN, stalls()); }
bool Connection::is_writable() const { return wait(POLLOUT, stalls()); }

// Receives the available bytes into the empty buffer. When the server stops, a request that has not arrived completely is dropped.
bool Connection::fill(Clock::time_point until) {
  for (;;) {
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count > 0) {
      at_ = 0;
      end_ = size_t(count);
      return true;
    }
    if (count == 0 || !would_block() || !wait(POLLIN, until, true)) return false;
  }
}

ssize_t Connection::read(char* to, size_t size) {
  if (head_at_ < head_.text.size()) {
    const size_t count = head_.text.copy(to, size, head_at_);
    head_at_ += count;
    return ssize_t(count);
  }
  const uint64_t left = (head_.chunked ? limits_.chunked : head_.length.value_or(0)) - body_;
  if (left == 0 || (at_ == end_ && !fill(std::min(deadline_, stalls())))) return 0;
  const auto count = size_t(std::min<uint64_t>({size, end_ - at_, left}));
  std::memcpy(to, buffer_.data() + at_, count);
  at_ += count;
  body_ += count;
  return ssize_t(count);
}

ssize_t Connection::write(const char* from, size_t size) {
  const std::chrono::duration<double> most(limits_.request);
  for (;;) {
    const ssize_t count = ::send(socket_, from, size, kSendFlags);
    if (count >= 0) return count;
    const Clock::time_point begin = Clock::now();
    if (!would_block() || waited_for_reader_ > most || !wait(POLLOUT, stalls())) return -1;
    waited_for_reader_ += Clock::now() - begin;
  }
}

// Not needed: nothing depends on a client's address.
void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}
void Connection::get_local_ip_and_port(std::string& ip, int& port) const { get_remote_ip_and_port(ip, port); }

}  // namespace weft::serve
