// The socket of a request, to notice that its client has left: cpp-httplib shows it to a handler only while a streamed body is written.
#pragma once

#include <httplib.h>

namespace weft::serve {

class ClientSocket {
 public:
  // Finds the process's connection with the request's addresses and ports.
  explicit ClientSocket(const httplib::Request& request);

  // Whether the client has closed its side. False if the socket was not found.
  bool left() const;
  // Ends the connection in both directions, without an answer.
  void close() const;

 private:
  int socket_ = -1;
};

}  // namespace weft::serve
