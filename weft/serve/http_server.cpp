#include "weft/serve/http_server.h"

#include <strings.h>

#include <algorithm>

#include "weft/serve/answer.h"
#include "weft/serve/exchange.h"
#include "weft/serve/listener.h"
#include "weft/serve/loopback.h"

namespace weft::serve {
namespace {

constexpr int kRequests = 1000;  // maximum number per connection
constexpr size_t kDrained = 16;  // times max_body: a body that is too long is read up to this size, so that the client gets the answer
constexpr const char* kPosts[] = {"/v1/completions", "/v1/chat/completions", "/tokenize"};
constexpr const char* kGets[] = {"/", "/v1/models", "/health", "/metrics"};

// The page runs only its own script and connects only to this server.
constexpr const char* kPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'";

// Compares in a time that does not depend on where the keys differ.
bool same_key(const std::string& given, const std::string& expected) {
  unsigned difference = given.size() != expected.size();
  for (size_t i = 0; i < given.size(); ++i) difference |= unsigned(given[i] ^ expected[i % expected.size()]);
  return difference == 0;
}

template <size_t n>
bool is_one_of(const std::string& path, const char* const (&paths)[n]) {
  return std::find(std::begin(paths), std::end(paths), path) != std::end(paths);
}

// cpp-httplib's parser, routes and answers on our own connections.
class Requests : public httplib::Server {
 public:
  Requests() { svr_sock_ = 0; }  // without a socket it would behave as a server that is stopping, and not stream

  // Reads and answers a request. If it returns false or sets `closed`, no request may follow on the connection.
  template <class Stream>
  bool answer(Stream& stream, bool last, bool& closed) {
    if constexpr (requires { this->process_request(stream, last, closed, nullptr); })
      return this->process_request(stream, last, closed, nullptr);
    else  // versions after 0.11 also take the addresses
      return this->process_request(stream, std::string(), 0, std::string(), 0, last, closed, nullptr);
  }
};

bool is_json(const std::string& type) { return ::strncasecmp(type.c_str(), "application/json", 16) == 0; }

size_t declared_length(const httplib::Request& request) {
  return std::strtoull(request.get_header_value("Content-Length").c_str(), nullptr, 10);
}

void set_json(httplib::Response& response, const std::string& body, int status = 200) {
  response.status = status;
  response.set_content(body, "application/json");
}

}  // namespace

struct HttpServer::State {
  using Handler = std::function<void(const httplib::Request&, const std::string& body, httplib::Response&)>;

  State(HttpOptions o, const ServedModel& m, Scheduler& s, Metrics& c)
      : options(std::move(o)),
        model(m),
        scheduler(s),
        metrics(c),
        listener(options.connections,
                 {.idle = options.idle, .stall = options.stall, .request = options.timeout, .chunked = 2 * options.max_body + (1 << 16)},
                 [this](Connection& connection) { serve(connection); }) {}

  void serve(Connection& connection);
  void configure();
  bool refuse_head(const httplib::Request& request, httplib::Response& response) const;
  void add_routes();
  void get(const std::string& path, bool open, const Handler& handler);
  void post(const std::string& path, const Handler& handler);
  std::string read_body(const httplib::Request& request, const httplib::ContentReader& read) const;
  void admit(const httplib::Request& request, bool open) const;
  ApiError too_long() const;
  bool guarded(httplib::Response& response, const std::function<void()>& handle) const;
  void generate(GenerationRequest request, httplib::Response& response);
  void tokenize(const std::string& body, httplib::Response& response) const;
  OrderedJson model_object(const std::string& adapter) const;  // "": the base model

  const HttpOptions options;
  const ServedModel& model;
  Scheduler& scheduler;
  Metrics& metrics;
  Requests server;
  Listener listener;  // declared last because its threads use the other members
};

void HttpServer::State::serve(Connection& connection) {
  for (int left = kRequests; left > 0 && connection.wait_for_request(); --left) {
    bool closed = false;
    const bool last = left == 1 || connection.refused();  // a refused client must reconnect
    if (!server.answer(connection, last, closed) || closed || last) connection.close_after();
  }
  if (const int status = connection.refused_status()) metrics.count_request("other", status);
}

// Answers a request that its head already rules out, without reading the body; the connection then ends. Returns false for other requests.
bool HttpServer::State::refuse_head(const httplib::Request& request, httplib::Response& response) const {
  const bool post = request.method == "POST", known = post && is_one_of(request.path, kPosts);
  if (request.method == "GET" || request.method == "HEAD") return false;
  if (!known) {
    response.status = 404;  // the error handler writes the body
    return true;
  }
  const auto check = [&] {
    admit(request, false);
    const bool chunked = request.has_header("Transfer-Encoding");
    if (!chunked && !request.has_header("Content-Length"))
      throw api_error(411, "the request has no Content-Length", "invalid_request_error");
    // Required against other web pages: browsers send this type only after a CORS preflight request.
    if (!is_json(request.get_header_value("Content-Type")))
      throw api_error(415, "expected Content-Type: application/json", "invalid_request_error");
    if (declared_length(request) > kDrained * options.max_body) throw too_long();
  };
  return !guarded(response, check);
}

ApiError HttpServer::State::too_long() const {
  return api_error(413, weft::join("the request's body has more than ", options.max_body, " bytes"), "invalid_request_error", "too_large");
}

void HttpServer::State::configure() {
  server.set_keep_alive_timeout(options.idle);
  server.set_keep_alive_max_count(kRequests);
  server.set_payload_max_length(options.max_body);
  server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    using Result = httplib::Server::HandlerResponse;
    return refuse_head(request, response) ? Result::Handled : Result::Unhandled;
  });
  server.set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    if (!Connection::current().ends()) return;
    response.headers.erase("Keep-Alive");
    response.set_header("Connection", "close");
  });
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
    metrics.count_request(is_one_of(request.path, kGets) || is_one_of(request.path, kPosts) ? request.path : "other", response.status);
  });
}

// Refuses requests above the limit of connections, requests without the key, and, without a key, those with another host name (DNS
// rebinding). `open`: needs no key.
void HttpServer::State::admit(const httplib::Request& request, bool open) const {
  if (Connection::current().refused()) throw api_error(503, "too many connections; try again later", "server_error", "overloaded");
  if (options.api_key.empty()) {
    const std::string host = without_port(request.get_header_value("Host"));
    if (is_loopback(options.host) && !host.empty() && !is_loopback(host))
      throw api_error(403, "the Host header names another host; a server with --api-key allows that", "invalid_request_error",
                      "forbidden_host");
  } else if (const std::string given = request.get_header_value("Authorization");
             !open && !(::strncasecmp(given.c_str(), "Bearer ", 7) == 0 && same_key(given.substr(7), options.api_key))) {
    throw api_error(401, "the API key is missing or wrong: Authorization: Bearer KEY", "authentication_error", "invalid_api_key");
  }
}

// Calls `handle`. If it throws, writes OpenAI's error object into the response and returns false.
bool HttpServer::State::guarded(httplib::Response& response, const std::function<void()>& handle) const {
  ApiError error;
  try {
    handle();
    return true;
  } catch (const ApiError& thrown) {
    error = thrown;
  } catch (const Error& thrown) {  // from the tokenizer or the chat template
    error = api_error(400, model.public_text(thrown.what()), "invalid_request_error");
  } catch (const nlohmann::json::exception&) {
    error = api_error(400, "the request has a value of an unexpected type", "invalid_request_error");
  }
  if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (error.status == 429 || error.status == 503) response.set_header("Retry-After", "1");
  set_json(response, error_json(error), error.status);
  return false;
}

// The size of a compressed or chunked body is not known before, so it is checked while the body is read.
std::string HttpServer::State::read_body(const httplib::Request& request, const httplib::ContentReader& read) const {
  std::string body;
  size_t length = 0;
  const bool whole = read([&](const char* data, size_t size) {
    length += size;
    if (length <= options.max_body) body.append(data, size);
    return length <= kDrained * options.max_body;
  });
  if (whole) Connection::current().body_done();
  if (length > options.max_body || declared_length(request) > options.max_body) throw too_long();
  if (!whole && Connection::current().stopping()) throw stopping();
  if (!whole) throw api_error(400, "the request's body is truncated or does not match its Content-Encoding", "invalid_request_error");
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
    guarded(response, [&] { handler(request, read_body(request, read), response); });
  });
}

void HttpServer::State::generate(GenerationRequest request, httplib::Response& response) {
  const std::chrono::duration<double> timeout(options.timeout);
  std::make_shared<Exchange>(Answer(std::move(request), model), scheduler, metrics, timeout)->run(response);
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

OrderedJson HttpServer::State::model_object(const std::string& adapter) const {
  OrderedJson json{{"id", adapter.empty() ? model.name() : adapter},
                   {"object", "model"},
                   {"created", model.created()},
                   {"owned_by", "weft"},
                   {"max_model_len", model.positions()}};
  if (!adapter.empty()) json["parent"] = model.name();
  return json;
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
    OrderedJson list = OrderedJson::array({model_object("")});
    for (const std::string& adapter : model.adapters()) list.push_back(model_object(adapter));
    set_json(response, text_of({{"object", "list"}, {"data", list}}));
  });
  get("/v1/models/(.+)", false, [this](const Request& http, const std::string&, Response& response) {
    set_json(response, text_of(model_object(model.adapter_of(http.matches[1]))));
  });
  post("/v1/completions",
       [this](const Request&, const std::string& body, Response& response) { generate(parse_completion(body), response); });
  post("/v1/chat/completions",
       [this](const Request&, const std::string& body, Response& response) { generate(parse_chat(body), response); });
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

int HttpServer::bind() { return state_->listener.bind(state_->options.host, state_->options.port); }

void HttpServer::start() { state_->listener.start(); }

void HttpServer::serve(int socket) { state_->listener.serve(socket); }

void HttpServer::join() { state_->listener.join(); }

void HttpServer::stop() { state_->listener.stop(); }

}  // namespace weft::serve
