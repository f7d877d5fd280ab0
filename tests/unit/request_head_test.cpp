// Heads of HTTP requests: the head that cpp-httplib receives, and the heads that are refused.
#include "weft/serve/request_head.h"

#include <gtest/gtest.h>

#include "weft/serve/api_error.h"

namespace weft::serve {
namespace {

const std::string kPost = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n";

int status_of(const std::string& head) {
  try {
    parse_head(head);
    return 200;
  } catch (const ApiError& error) {
    return error.status;
  }
}

TEST(RequestHead, KeepsWhatTheServerUses) {
  const RequestHead head =
      parse_head(kPost +
                 "content-length:  12 \r\nCONTENT-TYPE: application/json; charset=utf-8\r\nAuthorization: Bearer a b\r\n"
                 "Range: bytes=0-1\r\nAccept-Encoding: br\r\nUser-Agent: x\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_EQ(head.text, kPost +
                           "Authorization: Bearer a b\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 12\r\n"
                           "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(head.length, 12u);
  EXPECT_TRUE(head.has_body() && !head.chunked);
  EXPECT_TRUE(parse_head(kPost + "Transfer-Encoding: CHUNKED\r\n\r\n").chunked);
  EXPECT_FALSE(parse_head("GET / HTTP/1.1\r\n\r\n").has_body());
}

TEST(RequestHead, TargetsArePaths) {
  const auto line = [](const std::string& target) {
    const std::string text = parse_head("GET " + target + " HTTP/1.1\r\n\r\n").text;
    return text.substr(0, text.find("\r\n"));
  };
  EXPECT_EQ(line("/health?a?b=c#d"), "GET /health HTTP/1.1");
  EXPECT_EQ(line("HTTP://127.0.0.1:8080/v1/models?x"), "GET /v1/models HTTP/1.1");
  EXPECT_EQ(line("http://localhost"), "GET / HTTP/1.1");
  EXPECT_EQ(line("*"), "GET * HTTP/1.1");
  for (const char* target : {"health", "ftp://a/b", "?a", "/a b"})
    EXPECT_EQ(status_of(std::string("GET ") + target + " HTTP/1.1\r\n\r\n"), 400) << target;
  EXPECT_EQ(status_of("GET /" + std::string(kMostTarget, 'a') + " HTTP/1.1\r\n\r\n"), 414);
}

TEST(RequestHead, ConnectionOptions) {
  const auto closes = [](const std::string& version, const std::string& headers) {
    return parse_head("GET / " + version + "\r\n" + headers + "\r\n").text.find("Connection: close\r\n") != std::string::npos;
  };
  EXPECT_FALSE(closes("HTTP/1.1", ""));
  EXPECT_FALSE(closes("HTTP/1.1", "Connection: keep-alive\r\n"));
  for (const char* options : {"close", "Close", "TE, close", "close,TE", "keep-alive\r\nConnection: close"})
    EXPECT_TRUE(closes("HTTP/1.1", std::string("Connection: ") + options + "\r\n")) << options;
  EXPECT_TRUE(closes("HTTP/1.0", ""));
  EXPECT_FALSE(closes("HTTP/1.0", "Connection: Keep-Alive\r\n"));
}

// Two readers of the connection could disagree about where the body ends.
TEST(RequestHead, AmbiguousFramingIsRefused) {
  for (const char* framing : {"Content-Length: 2\r\nContent-Length: 2",
                              "Content-Length: 2, 2",
                              "Content-Length: +2",
                              "Content-Length: -2",
                              "Content-Length: 0x2",
                              "Content-Length: 2a",
                              "Content-Length:",
                              "Content-Length: 99999999999999999999",
                              "Content-Length: 2\r\nTransfer-Encoding: chunked",
                              "Transfer-Encoding: gzip, chunked",
                              "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                              "Transfer-Encoding: xchunked",
                              "Transfer-Encoding : chunked",
                              "Content-Length : 2",
                              " Content-Length: 2",
                              "X: a\r\n Content-Length: 2",
                              "X: a\nContent-Length: 2",
                              "X: a\rContent-Length: 2",
                              "X: \x01",
                              "Host: other"})
    EXPECT_EQ(status_of(kPost + framing + "\r\n\r\n"), 400) << framing;
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(RequestHead, OtherHeadsAreRefused) {
  for (const char* line : {"", "GET", "GET /", "GET / HTTP/1.1 ", "GET  / HTTP/1.1", "GET / HTTP/2", "GET / http/1.1", "BREW / HTTP/1.1",
                           "get / HTTP/1.1", "GET\t/ HTTP/1.1"})
    EXPECT_EQ(status_of(std::string(line) + "\r\n\r\n"), 400) << line;
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nno header\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a"), 400);
  EXPECT_EQ(status_of(kPost + "Authorization: " + std::string(5000, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of(kPost + "X: " + std::string(50000, 'a') + "\r\n\r\n"), 200);
  EXPECT_EQ(status_of(kPost + "Content-Type: Multipart/form-data; boundary=x\r\n\r\n"), 415);
}

}  // namespace
}  // namespace weft::serve
