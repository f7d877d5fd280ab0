#include "weft/serve/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "weft/serve/answer.h"

namespace weft::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLinger{1000};  // for a client to read the answer to a request of which not all was read
constexpr int kRefusedIdle = 1;        // seconds: few of them can be open
#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#else
constexpr int kSendFlags = MSG_DONTWAIT;  // cpp-httplib's server ignores SIGPIPE
#endif

thread_local Connection* served = nullptr;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Connection::Connection(int socket, int stop, const ConnectionLimits& limits, bool refused)
    : socket_(socket), stop_(stop), limits_(limits), refused_(refused) {
  served = this;
}

// Closing a socket with unread bytes would take back an answer that is still under way.
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

// Whether one of `events` came before `until`. `for_stop`: and before the server stopped.
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
  const Clock::time_point idle = Clock::now() + std::chrono::seconds(refused_ ? kRefusedIdle : limits_.idle);
  if (closes_ || (at_ == end_ && !(wait(POLLIN, idle, true) && fill(idle)))) return false;
  in_head_ = true;
  head_ = 0;
  deadline_ = stalls();
  return true;
}

void Connection::head_done() {
  in_head_ = false;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.request));
}

void Connection::close_after() { closes_ = true; }

void Connection::abandon() {
  closes_ = true;
  ::shutdown(socket_, SHUT_RDWR);
}

bool Connection::left() const {
  char byte;
  const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && !would_block());
}

bool Connection::is_readable() const { return at_ < end_ || wait(POLLIN, stalls()); }
bool Connection::is_writable() const { return wait(POLLOUT, stalls()); }

// Receives what is there into the empty buffer. A request of which not all has come is dropped when the server stops.
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

// cpp-httplib drops a request whose head it cannot read: the answer is given here.
ssize_t Connection::give_up(int status) {
  const bool slow = status == 408;
  const std::string body = error_json(
      api_error(status, slow ? "the request's head did not arrive in time" : "the request's head is too long", "invalid_request_error"));
  const std::string answer = "HTTP/1.1 " + std::to_string(status) + (slow ? " Request Timeout" : " Request Header Fields Too Large") +
                             "\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                             "\r\n\r\n" + body;
  [[maybe_unused]] const ssize_t sent = ::send(socket_, answer.data(), answer.size(), kSendFlags);
  closes_ = answered_ = true;
  return -1;
}

ssize_t Connection::read(char* to, size_t size) {
  if (in_head_ && head_ >= limits_.head) return closes_ ? -1 : give_up(431);
  if (at_ == end_ && !fill(std::min(deadline_, in_head_ ? deadline_ : stalls())))
    return in_head_ && !closes_ && Clock::now() >= deadline_ ? give_up(408) : 0;
  const size_t count = std::min({size, end_ - at_, in_head_ ? limits_.head - head_ : size});
  std::memcpy(to, buffer_.data() + at_, count);
  at_ += count;
  if (in_head_) head_ += count;
  return ssize_t(count);
}

ssize_t Connection::write(const char* from, size_t size) {
  while (!answered_) {
    const ssize_t count = ::send(socket_, from, size, kSendFlags);
    if (count >= 0) return count;
    if (!would_block() || !wait(POLLOUT, stalls())) return -1;
  }
  return -1;
}

// Nothing depends on a client's address.
void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}
void Connection::get_local_ip_and_port(std::string& ip, int& port) const { get_remote_ip_and_port(ip, port); }

}  // namespace weft::serve
