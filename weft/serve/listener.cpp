#include "weft/serve/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "weft/base/check.h"

namespace weft::serve {
namespace {

constexpr int kBacklog = 1024;    // pending connections in the system's queue
constexpr int kMostRefused = 32;  // connections beyond the limit that are answered with 503
constexpr int kFewMilliseconds = 50;

void set_option(int socket, int level, int option) {
  const int yes = 1;
  ::setsockopt(socket, level, option, &yes, sizeof yes);
}

void set_flags(int descriptor, bool blocks) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  if (!blocks) ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

// A socket that listens on the address, or -1.
int listening_socket(const addrinfo& address) {
  const int socket = ::socket(address.ai_family, address.ai_socktype, address.ai_protocol);
  if (socket < 0) return -1;
  set_flags(socket, false);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  if (address.ai_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY);
  if (::bind(socket, address.ai_addr, address.ai_addrlen) == 0 && ::listen(socket, kBacklog) == 0) return socket;
  ::close(socket);
  return -1;
}

int port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

// Runs and deletes `work` in a new thread; returns false if the system has none. Parsers recurse, so the size of the stack is fixed rather
// than taken from `ulimit -s`.
bool begin_thread(std::function<void()>* work) {
  constexpr size_t kStack = size_t(8) << 20;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const auto run = [](void* given) -> void* {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(given));
    (*owned)();
    return nullptr;
  };
  pthread_t thread;
  const bool begun = ::pthread_create(&thread, &attributes, run, work) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!begun) delete work;
  return begun;
}

}  // namespace

Listener::Listener(int most, const ConnectionLimits& limits, Serve serve) : most_(most), limits_(limits), serve_(std::move(serve)) {
  check(::pipe(stop_) == 0, "serve", "cannot make a pipe");
  for (int end : stop_) set_flags(end, true);
}

Listener::~Listener() {
  stop();
  join();
  if (socket_ >= 0) ::close(socket_);
  ::close(stop_[0]);
}

int Listener::bind(const std::string& host, int port) {
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) found = nullptr;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* address = found; address && socket_ < 0; address = address->ai_next) socket_ = listening_socket(*address);
  check(socket_ >= 0, "serve", "cannot listen on ", host, " port ", port, ": the port is in use or the host is not of this machine");
  return port_of(socket_);
}

void Listener::start() {
  accepting_ = std::thread([this] { accept_all(); });
}

void Listener::stop() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(stopping_, true)) ::close(stop_[1]);
  ended_.notify_all();
}

void Listener::join() {
  if (accepting_.joinable()) accepting_.join();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return open_ == 0; });
}

void Listener::accept_all() {
  while (wait_for_room()) {
    pollfd polled[2] = {{socket_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    const int ready = ::poll(polled, 2, -1);
    if (ready > 0 && polled[0].revents != 0 && polled[1].revents == 0) accept_one();
  }
  ::close(std::exchange(socket_, -1));  // further connections are refused by the system
}

// Waits until a connection may be accepted. False: the server stops.
bool Listener::wait_for_room() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return stopping_ || open_ < most_ + kMostRefused; });
  return !stopping_;
}

void Listener::accept_one() {
  const int socket = ::accept(socket_, nullptr, nullptr);
  if (socket < 0) {  // if out of descriptors or memory, wait until connections end
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      std::this_thread::sleep_for(std::chrono::milliseconds(kFewMilliseconds));
    return;
  }
  set_flags(socket, false);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    refused = ++open_ > most_;
  }
  if (begin_thread(new std::function<void()>([this, socket, refused] { run(socket, refused); }))) return;
  ::close(socket);  // the thread could not be created
  const std::lock_guard lock(mutex_);
  --open_;
}

void Listener::serve(int socket) {
  set_flags(socket, false);
  {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  run(socket, false);
}

void Listener::run(int socket, bool refused) {
  try {
    Connection connection(socket, stop_[0], limits_, refused);
    serve_(connection);
  } catch (...) {  // an error ends only this connection
  }
  const std::lock_guard lock(mutex_);
  --open_;
  ended_.notify_all();
}

}  // namespace weft::serve
