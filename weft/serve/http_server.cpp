#include "weft/serve/http_server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "weft/serve/answer.h"
#include "weft/serve/connections.h"
#include "weft/serve/exchange.h"

namespace weft::serve {
namespace {

constexpr int kSocketSeconds = 30;    // without a byte read or written, a connection in a request is closed
constexpr int kKeepAliveSeconds = 5;  // an idle connection
constexpr size_t kDrained = 16;       // times max_body: that much of a body that is too long is read before the connection is given up
constexpr const char* kEndpoints[] = {"/", "/v1/models", "/v1/completions", "/v1/chat/completions", "/tokenize", "/health", "/metrics"};

// The page runs its own script alone and talks to this server alone.
constexpr const char* kPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'";

bool is_loopback(const std::string& host) {
  in_addr address;  // a name may begin with 127., too
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1" || host == "[::1]";
}

std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  return colon == host.npos || (host.starts_with('[') && host.ends_with(']')) ? host : host.substr(0, colon);
}

// Takes the same time wherever the two differ.
bool same_key(const std::string& given, const std::string& expected) {
  unsigned difference = given.size() != expected.size();
  for (size_t i = 0; i < given.size(); ++i) difference |= unsigned(given[i] ^ expected[i % expected.size()]);
  return difference == 0;
}

void set_json(httplib::Response& response, const std::string& body, int status = 200) {
  response.status = status;
  response.set_content(body, "application/json");
}

}  // namespace

struct HttpServer::State {
  using Handler = std::function<void(const httplib::Request&, const std::string& body, httplib::Response&)>;

  State(HttpOptions o, const ServedModel& m, Scheduler& s, Metrics& c) : options(std::move(o)), model(m), scheduler(s), metrics(c) {}

  void configure();
  void add_routes();
  void get(const std::string& path, bool open, const Handler& handler);
  void post(const std::string& path, const Handler& handler);
  std::string read_body(const httplib::Request& request, const httplib::ContentReader& read) const;
  void admit(const httplib::Request& request, bool open) const;
  void guarded(httplib::Response& response, const std::function<void()>& handle) const;
  void generate(const httplib::Request& http, GenerationRequest request, httplib::Response& response);
  void tokenize(const std::string& body, httplib::Response& response) const;
  OrderedJson model_object() const;

  const HttpOptions options;
  const ServedModel& model;
  Scheduler& scheduler;
  Metrics& metrics;
  httplib::Server server;
  std::thread listening;
};

void HttpServer::State::configure() {
  server.new_task_queue = [this] { return new Connections(options.connections); };
  // Its own options would let a second server bind the same port.
  server.set_socket_options([](auto socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_tcp_nodelay(true);
  server.set_keep_alive_timeout(kKeepAliveSeconds);
  server.set_keep_alive_max_count(1000);
  server.set_read_timeout(kSocketSeconds);
  server.set_write_timeout(kSocketSeconds);
  server.set_payload_max_length(options.max_body);
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"}});
  server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    const int status = response.status;
    const std::string message = status == 404   ? "there is no " + request.method + " " + request.path
                                : status == 413 ? "the request's body is too long"
                                                : "the request is not valid";
    set_json(response, error_json(api_error(status, message, "invalid_request_error", status == 404 ? "unknown_url" : "")), status);
  });
  server.set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
    set_json(response, error_json(api_error(500, "internal error", "server_error")), 500);
  });
  server.set_logger([this](const httplib::Request& request, const httplib::Response& response) {
    const auto known = std::find(std::begin(kEndpoints), std::end(kEndpoints), request.path);
    metrics.count_request(known == std::end(kEndpoints) ? "other" : *known, response.status);
  });
}

// Refuses requests above the limit of connections, without the key, and those of web pages that reach this host under another name (DNS
// rebinding). `open`: needs no key.
void HttpServer::State::admit(const httplib::Request& request, bool open) const {
  if (Connections::refused()) throw api_error(503, "too many connections; try again later", "server_error", "overloaded");
  if (options.api_key.empty()) {
    const std::string host = without_port(request.get_header_value("Host"));
    if (is_loopback(options.host) && !host.empty() && !is_loopback(host))
      throw api_error(403, "the Host header names another host; --api-key allows that", "invalid_request_error", "forbidden_host");
  } else if (const std::string given = request.get_header_value("Authorization");
             !open && !(given.starts_with("Bearer ") && same_key(given.substr(7), options.api_key))) {
    throw api_error(401, "the API key is missing or wrong: Authorization: Bearer KEY", "authentication_error", "invalid_api_key");
  }
}

// Calls `handle` and turns what it throws into OpenAI's error object.
void HttpServer::State::guarded(httplib::Response& response, const std::function<void()>& handle) const {
  ApiError error;
  try {
    return handle();
  } catch (const ApiError& thrown) {
    error = thrown;
  } catch (const Error& thrown) {  // of the tokenizer or the chat template
    error = api_error(400, model.public_text(thrown.what()), "invalid_request_error");
  } catch (const nlohmann::json::exception&) {
    error = api_error(400, "the request has a value of an unexpected type", "invalid_request_error");
  }
  if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (error.status == 429 || error.status == 503) response.set_header("Retry-After", "1");
  set_json(response, error_json(error), error.status);
}

// A compressed or chunked body has no length that could be checked before: counted while it is read.
std::string HttpServer::State::read_body(const httplib::Request& request, const httplib::ContentReader& read) const {
  const auto other_type = [] { return api_error(415, "expected Content-Type: application/json", "invalid_request_error"); };
  if (request.is_multipart_form_data()) {
    const bool form = read([](const auto&) { return true; }, [](const char*, size_t) { return true; });
    if (!form) ClientSocket(request).close();  // what is left of it would be taken for the next request
    throw other_type();
  }
  std::string body;
  size_t length = 0;
  const bool whole = read([&](const char* data, size_t size) {
    length += size;
    if (length <= options.max_body) body.append(data, size);
    return length <= kDrained * options.max_body;
  });
  if (length > kDrained * options.max_body) ClientSocket(request).close();
  if (!whole || length > options.max_body)
    throw api_error(413, weft::join("the request's body has more than ", options.max_body, " bytes"), "invalid_request_error", "too_large");
  // Another type would let any web page send requests without asking (CORS).
  if (!request.get_header_value("Content-Type").starts_with("application/json")) throw other_type();
  return body;
}

void HttpServer::State::get(const std::string& path, bool open, const Handler& handler) {
  server.Get(path, [=, this](const httplib::Request& request, httplib::Response& response) {
    guarded(response, [&] {
      admit(request, open);
      handler(request, "", response);
    });
  });
}

void HttpServer::State::post(const std::string& path, const Handler& handler) {
  server.Post(path, [=, this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
    guarded(response, [&] {
      const std::string body = read_body(request, read);  // first: a body left unread would be taken for the next request
      admit(request, false);
      handler(request, body, response);
    });
  });
}

void HttpServer::State::generate(const httplib::Request& http, GenerationRequest request, httplib::Response& response) {
  const std::chrono::duration<double> timeout(options.timeout);
  std::make_shared<Exchange>(Answer(std::move(request), model), http, scheduler, metrics, timeout)->run(response);
}

void HttpServer::State::tokenize(const std::string& body, httplib::Response& response) const {
  const TokenizeRequest request = parse_tokenize(body);
  const Tokenizer& tokenizer = model.need_tokenizer();
  const Ids ids = request.text ? tokenizer.encode(*request.text, request.add_special)
                               : model.encode_chat(request.conversation, request.add_generation_prompt);
  OrderedJson tokens = OrderedJson::array();
  for (int32_t id : ids) tokens.push_back(token_label(&tokenizer, id));
  set_json(response, text_of({{"tokens", ids}, {"count", ids.size()}, {"token_strs", tokens}, {"max_model_len", model.positions()}}));
}

OrderedJson HttpServer::State::model_object() const {
  return {
      {"id", model.name()}, {"object", "model"}, {"created", model.created()}, {"owned_by", "weft"}, {"max_model_len", model.positions()}};
}

void HttpServer::State::add_routes() {
  using Request = httplib::Request;
  using Response = httplib::Response;
  get("/", true, [](const Request&, const std::string&, Response& response) {
    response.set_header("Content-Security-Policy", kPagePolicy);
    response.set_content(std::string(chat_page()), "text/html; charset=utf-8");
  });
  get("/health", true, [](const Request&, const std::string&, Response& response) { set_json(response, "{\"status\":\"ok\"}"); });
  get("/metrics", false, [this](const Request&, const std::string&, Response& response) {
    response.set_content(metrics.text(), "text/plain; version=0.0.4");
  });
  get("/v1/models", false, [this](const Request&, const std::string&, Response& response) {
    set_json(response, text_of({{"object", "list"}, {"data", OrderedJson::array({model_object()})}}));
  });
  get("/v1/models/(.+)", false, [this](const Request& http, const std::string&, Response& response) {
    model.check_name(http.matches[1]);
    set_json(response, text_of(model_object()));
  });
  post("/v1/completions",
       [this](const Request& http, const std::string& body, Response& response) { generate(http, parse_completion(body), response); });
  post("/v1/chat/completions",
       [this](const Request& http, const std::string& body, Response& response) { generate(http, parse_chat(body), response); });
  post("/tokenize", [this](const Request&, const std::string& body, Response& response) { tokenize(body, response); });
}

HttpServer::HttpServer(HttpOptions options, const ServedModel& model, Scheduler& scheduler, Metrics& metrics)
    : state_(std::make_unique<State>(std::move(options), model, scheduler, metrics)) {
  state_->configure();
  state_->add_routes();
}

HttpServer::~HttpServer() {
  stop();
  join();
}

int HttpServer::bind() {
  const auto& [host, port] = std::tie(state_->options.host, state_->options.port);
  const int bound = port == 0 ? state_->server.bind_to_any_port(host) : state_->server.bind_to_port(host, port) ? port : -1;
  check(bound > 0, "serve", "cannot listen on ", host, " port ", port, ": the port is in use or the host is not of this machine");
  return bound;
}

void HttpServer::start() {
  state_->listening = std::thread([this] { state_->server.listen_after_bind(); });
  while (!state_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // stop() before it does nothing
}

void HttpServer::join() {
  if (state_->listening.joinable()) state_->listening.join();
}

void HttpServer::stop() { state_->server.stop(); }

}  // namespace weft::serve
