// Recognises host names and addresses of this machine.
#pragma once

#include <string>

namespace weft::serve {

// localhost, 127.0.0.0/8, ::1 or [::1].
bool is_loopback(const std::string& host);

// The host of "host", "host:port" or "[v6]:port".
std::string without_port(const std::string& host);

}  // namespace weft::serve
