#include "weft/serve/client_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/select.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

namespace weft::serve {
namespace {

struct Address {
  std::string host;
  int port = -1;
  bool operator==(const Address&) const = default;
};

// `of`: getpeername or getsockname.
Address address(int socket, int (*of)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (of(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return {text, ntohs(v4.sin_port)};
  }
  if (storage.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return {text, ntohs(v6.sin6_port)};
}

}  // namespace

ClientSocket::ClientSocket(const httplib::Request& request) {
  const Address client{request.remote_addr, request.remote_port}, server{request.local_addr, request.local_port};
  for (int socket = 0; socket < FD_SETSIZE && socket_ < 0; ++socket)  // cpp-httplib refuses connections with larger numbers
    if (address(socket, ::getpeername) == client && address(socket, ::getsockname) == server) socket_ = socket;
}

void ClientSocket::close() const {
  if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
}

bool ClientSocket::left() const {
  if (socket_ < 0) return false;
  char byte;
  const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace weft::serve
