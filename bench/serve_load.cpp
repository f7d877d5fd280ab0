#include "bench/serve_load.h"

#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "weft/base/check.h"
#include "weft/serve/loopback.h"

namespace weft::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int64_t kMostClients = 256, kMostRequests = 100000, kMostTokens = 1 << 20;
constexpr int kPatience = 600;                            // seconds without a byte
constexpr int32_t kFirstId = 10, kLastId = 249;           // in every vocabulary
constexpr const char *kEvent = "data: ", *kEnd = "\n\n";  // of server-sent events

double seconds_between(Clock::time_point begin, Clock::time_point end) { return std::chrono::duration<double>(end - begin).count(); }

struct Address {
  std::string host;
  int port = 80;
};

Address address_of(const std::string& url) {
  const std::string scheme = "http://";
  check(url.starts_with(scheme), "bench", "--serve is ", url, ", expected a URL such as http://127.0.0.1:8080");
  const std::string rest = url.substr(scheme.size()), authority = rest.substr(0, rest.find('/')), host = serve::without_port(authority);
  check(serve::is_loopback(host), "bench", "--serve is ", url, ", expected a server on this machine (127.0.0.1, localhost or [::1])");
  Address address{host == "localhost" ? "127.0.0.1" : host.starts_with('[') ? host.substr(1, host.size() - 2) : host};
  if (host != authority) {
    const std::string port = authority.substr(host.size() + 1);
    const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
    address.port = digits ? std::stoi(port) : 0;
    check(address.port >= 1 && address.port <= 65535, "bench", "--serve is ", url, ": the port is '", port, "', expected 1 to 65535");
  }
  return address;
}

std::string body_of(const ServeLoad& load, int64_t request, int64_t new_tokens) {
  std::seed_seq seeds{load.seed, uint32_t(request + 1)};
  std::mt19937 random(seeds);
  std::uniform_int_distribution<int32_t> id(kFirstId, kLastId);
  std::vector<int32_t> prompt(static_cast<size_t>(load.prompt_tokens));
  for (int32_t& one : prompt) one = id(random);
  return Json{{"prompt", prompt},   {"max_tokens", new_tokens}, {"temperature", 0},
              {"ignore_eos", true}, {"stream", true},           {"stream_options", {{"include_usage", true}}}}
      .dump();
}

// One client and its results.
class Client {
 public:
  Client(const Address& address, const ServeLoad& load) : http_(address.host, address.port), load_(load) {
    http_.set_keep_alive(true);
    http_.set_tcp_nodelay(true);
    http_.set_read_timeout(kPatience);
    http_.set_write_timeout(kPatience);
    if (!load.api_key.empty()) http_.set_bearer_token_auth(load.api_key);
  }

  ServeResult result;

  void send(int64_t number, int64_t new_tokens) {
    pending_.clear();
    tokens_ = 0;
    error_.clear();
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.set_header("Content-Type", "application/json");
    request.body = body_of(load_, number, new_tokens);
    request.content_receiver = [this](const char* data, size_t size, uint64_t, uint64_t) {
      receive(std::string_view(data, size));
      return true;
    };
    begin_ = last_ = Clock::now();
    const httplib::Result answer = http_.send(request);
    if (!answer)
      error_ = "no answer: " + httplib::to_string(answer.error());
    else if (answer->status != 200)
      error_ = "status " + std::to_string(answer->status) + ": " + pending_.substr(0, 200);
    if (!error_.empty()) {
      ++result.errors[error_];
      return;
    }
    ++result.answered;
    result.prompt_tokens += load_.prompt_tokens;
  }

 private:
  void receive(std::string_view data) {
    const Clock::time_point now = Clock::now();
    pending_ += data;
    size_t at = 0;
    for (size_t end; (end = pending_.find(kEnd, at)) != pending_.npos; at = end + 2) {
      const std::string_view event = std::string_view(pending_).substr(at, end - at);
      if (event.starts_with(kEvent) && event.size() > 6 && event[6] == '{') take(Json::parse(event.substr(6), nullptr, false), now);
    }
    pending_.erase(0, at);
  }

  void take(const Json& event, Clock::time_point now) {
    if (!event.is_object() || event.contains("error")) {
      error_ = "error: " + (event.is_object() ? event["error"].value("message", "") : std::string("no JSON"));
      return;
    }
    if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object())
      result.new_tokens += usage->value("completion_tokens", int64_t(0));
    const auto choices = event.find("choices");
    if (choices == event.end() || choices->empty()) return;
    (tokens_++ == 0 ? result.first : result.between).push_back(seconds_between(last_, now));
    last_ = now;
  }

  httplib::Client http_;
  const ServeLoad& load_;
  std::string pending_, error_;
  int64_t tokens_ = 0;
  Clock::time_point begin_, last_;
};

void check_load(const ServeLoad& load) {
  const auto within = [](const char* flag, int64_t value, int64_t most) {
    check(value >= 1 && value <= most, "bench", flag, " is ", value, ", expected 1 to ", most);
  };
  within("--clients", load.clients, kMostClients);
  within("--requests", load.requests, kMostRequests);
  within("--prompt-tokens", load.prompt_tokens, kMostTokens);
  within("--new-tokens", load.new_tokens, kMostTokens);
}

void merge(ServeResult& into, const ServeResult& from) {
  into.answered += from.answered;
  into.prompt_tokens += from.prompt_tokens;
  into.new_tokens += from.new_tokens;
  into.first.insert(into.first.end(), from.first.begin(), from.first.end());
  into.between.insert(into.between.end(), from.between.begin(), from.between.end());
  for (const auto& [error, count] : from.errors) into.errors[error] += count;
}

}  // namespace

double percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[std::min(sorted.size() - 1, size_t(share * double(sorted.size())))];
}

ServeResult measure_server(const ServeLoad& load) {
  check_load(load);
  const Address address = address_of(load.url);
  std::vector<std::unique_ptr<Client>> clients;
  for (int64_t i = 0; i < load.clients; ++i) clients.push_back(std::make_unique<Client>(address, load));
  clients.front()->send(kMostRequests, 1);
  check(clients.front()->result.errors.empty(), "bench", load.url, ": ",
        clients.front()->result.errors.empty() ? "" : clients.front()->result.errors.begin()->first);
  Clock::time_point begin;
  std::barrier ready(std::ptrdiff_t(load.clients), [&]() noexcept { begin = Clock::now(); });
  std::atomic<int64_t> next = 0;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < load.clients; ++i)
    threads.emplace_back([&, i] {
      Client& client = *clients[size_t(i)];
      client.send(kMostRequests + 1 + i, std::min<int64_t>(load.new_tokens, 16));
      client.result = {};
      ready.arrive_and_wait();
      for (int64_t number; (number = next++) < load.requests;) client.send(number, load.new_tokens);
    });
  for (std::thread& thread : threads) thread.join();
  ServeResult result;
  result.seconds = seconds_between(begin, Clock::now());
  for (const auto& client : clients) merge(result, client->result);
  std::ranges::sort(result.first);
  std::ranges::sort(result.between);
  return result;
}

}  // namespace weft::bench
