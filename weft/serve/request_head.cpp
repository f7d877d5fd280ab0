#include "weft/serve/request_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "weft/serve/api_error.h"

namespace weft::serve {
namespace {

constexpr size_t kMostValue = 4096;  // characters of a used header's value

[[noreturn]] void refuse_head(int status, const std::string& message) { throw api_error(status, message, "invalid_request_error"); }

char lower(char c) { return 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c; }

std::string lower_case(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), lower);
  return lowered;
}

// Whether `c` may occur in a method or a header's name (RFC 9110, 5.6.2).
bool is_token(char c) {
  return ('0' <= c && c <= '9') || ('a' <= lower(c) && lower(c) <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const size_t first = text.find_first_not_of(kBlank);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Removes the first line from `head` and returns it without its line end.
std::string_view next_line(std::string_view& head) {
  const size_t end = head.find("\r\n");
  if (end == head.npos) refuse_head(400, "the request's head does not end in an empty line");
  const std::string_view line = head.substr(0, end);
  head.remove_prefix(end + 2);
  const auto is_control = [](char c) { return (uint8_t(c) < 0x20 && c != '\t') || c == 0x7f; };
  if (std::ranges::any_of(line, is_control))
    refuse_head(400, "the request's head has a control character, or a line that does not end in CRLF");
  return line;
}

// The path without the query, which the server does not use. http://host/path (the form for proxies) becomes /path.
std::string_view path_of(std::string_view target) {
  if (const std::string begin = lower_case(target.substr(0, 8)); begin.starts_with("http://") || begin.starts_with("https://")) {
    target.remove_prefix(target.find("//") + 2);
    target = target.substr(std::min(target.size(), target.find('/')));
    if (target.empty()) target = "/";
  }
  target = target.substr(0, target.find_first_of("?#"));
  if (!target.starts_with('/') && target != "*") refuse_head(400, "the request's target is not a path");
  return target;
}

// The request line for cpp-httplib, and whether its version is HTTP/1.0.
std::pair<std::string, bool> request_line(std::string_view line) {
  constexpr std::array<std::string_view, 9> kMethods = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) refuse_head(400, "the request's first line is not 'METHOD PATH HTTP/1.1'");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1), version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") refuse_head(400, "the request's version is not HTTP/1.1");
  if (std::ranges::find(kMethods, method) == kMethods.end()) refuse_head(400, "the request's method is unknown");
  if (target.find(' ') != target.npos) refuse_head(400, "the request's target has a space");
  if (target.size() > kMostTarget) refuse_head(414, "the request's path is too long");
  return {weft::join(method, " ", path_of(target), " ", version, "\r\n"), version == "HTTP/1.0"};
}

struct Headers {
  std::optional<std::string> host, authorization, content_type, content_encoding, content_length, transfer_encoding, connection, expect;

  std::optional<std::string>* of(std::string_view name) {
    const std::pair<const char*, std::optional<std::string>*> used[] = {{"host", &host},
                                                                        {"authorization", &authorization},
                                                                        {"content-type", &content_type},
                                                                        {"content-encoding", &content_encoding},
                                                                        {"content-length", &content_length},
                                                                        {"transfer-encoding", &transfer_encoding},
                                                                        {"connection", &connection},
                                                                        {"expect", &expect}};
    for (const auto& [known, value] : used)
      if (name == known) return value;
    return nullptr;
  }
};

Headers headers_of(std::string_view head) {
  Headers headers;
  for (std::string_view line; !(line = next_line(head)).empty();) {
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    if (colon == line.npos || name.empty() || !std::ranges::all_of(name, is_token))
      refuse_head(400, "the request has a line that is not a header");
    std::optional<std::string>* header = headers.of(lower_case(name));
    if (!header) continue;
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (*header && header == &headers.connection) {
      (**header).append(",").append(value);
      continue;
    }
    if (*header) refuse_head(400, weft::join("the request has several headers ", name));
    if (value.size() > kMostValue) refuse_head(431, weft::join("the request's header ", name, " is too long"));
    *header = value;
  }
  return headers;
}

bool has_option(std::string_view list, std::string_view option) {
  while (!list.empty()) {
    const size_t comma = std::min(list.size(), list.find(','));
    if (lower_case(trimmed(list.substr(0, comma))) == option) return true;
    list.remove_prefix(std::min(list.size(), comma + 1));
  }
  return false;
}

void set_framing(const Headers& headers, bool version_1_0, RequestHead& head) {
  if (headers.transfer_encoding) {
    if (headers.content_length) refuse_head(400, "the request has both Content-Length and Transfer-Encoding");
    if (version_1_0 || lower_case(*headers.transfer_encoding) != "chunked")
      refuse_head(400, "the request's Transfer-Encoding is not chunked");
    head.chunked = true;
  } else if (headers.content_length) {
    const std::string& text = *headers.content_length;
    uint64_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || end != text.data() + text.size()) refuse_head(400, "the request's Content-Length is not a number");
    head.length = length;
  }
}

}  // namespace

RequestHead parse_head(std::string_view text) {
  auto [line, version_1_0] = request_line(next_line(text));
  const Headers headers = headers_of(text);
  RequestHead head{.text = std::move(line)};
  head.version_1_0 = version_1_0;
  set_framing(headers, version_1_0, head);
  if (headers.content_type && lower_case(*headers.content_type).starts_with("multipart/"))
    refuse_head(415, "expected Content-Type: application/json");
  const auto put = [&](const char* name, const std::optional<std::string>& value) {
    if (value) head.text += weft::join(name, ": ", *value, "\r\n");
  };
  put("Host", headers.host);
  put("Authorization", headers.authorization);
  put("Content-Type", headers.content_type);
  put("Content-Encoding", headers.content_encoding);
  put("Content-Length", headers.content_length);
  put("Transfer-Encoding", head.chunked ? std::optional<std::string>("chunked") : std::nullopt);
  if (headers.expect && lower_case(*headers.expect) == "100-continue") head.text += "Expect: 100-continue\r\n";
  const std::string options = headers.connection.value_or("");
  if (has_option(options, "close") || (version_1_0 && !has_option(options, "keep-alive")))
    head.text += "Connection: close\r\n";
  else if (version_1_0)
    head.text += "Connection: Keep-Alive\r\n";
  head.text += "\r\n";
  return head;
}

}  // namespace weft::serve
