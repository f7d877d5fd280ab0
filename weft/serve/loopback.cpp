#include "weft/serve/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

namespace weft::serve {

bool is_loopback(const std::string& host) {
  in_addr address;  // parsed, because a host name may also begin with "127."
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return ::strcasecmp(host.c_str(), "localhost") == 0 || host == "::1" || host == "[::1]";
}

std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  return colon == host.npos || (host.starts_with('[') && host.ends_with(']')) ? host : host.substr(0, colon);
}

}  // namespace weft::serve
