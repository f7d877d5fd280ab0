#include "weft/serve/exchange.h"

#include <utility>

namespace weft::serve {
namespace {

constexpr std::chrono::milliseconds kPoll{100};  // interval of checks whether the client is still connected
constexpr int kClientLeft = 499;                 // status for the metrics only

bool write_event(httplib::DataSink& sink, const std::string& data) {
  const std::string text = "data: " + data + "\n\n";
  return sink.write(text.data(), text.size());
}

}  // namespace

Exchange::Exchange(Answer answer, Scheduler& scheduler, Metrics& metrics, std::chrono::duration<double> timeout)
    : answer_(std::move(answer)),
      client_(Connection::current()),
      scheduler_(scheduler),
      metrics_(metrics),
      start_(Clock::now()),
      deadline_(start_ + std::chrono::duration_cast<Clock::duration>(timeout)) {}

Exchange::~Exchange() {
  if (!ended_) scheduler_.cancel(*answer_.job());
}

bool Exchange::complete() { return answer_.finished() && answer_.job()->scores_ready(); }

// Waits at most kPoll for events.
void Exchange::wait() {
  answer_.job()->wait(kPoll, events_);
  if (!events_.empty() && std::exchange(first_, false))
    metrics_.count_first_token(std::chrono::duration<double>(Clock::now() - start_).count());
  if (client_.left()) throw api_error(kClientLeft, "the client has left", "server_error");
  if (Clock::now() > deadline_) throw api_error(504, "the request took longer than the server allows", "server_error", "timeout");
}

bool Exchange::follow(const std::function<bool(const TokenEvent&)>& each) {
  try {
    while (!complete()) {
      wait();
      for (const TokenEvent& event : std::exchange(events_, {})) {
        answer_.add(event);
        if (!each(event)) return false;
      }
    }
  } catch (const ApiError& error) {
    if (error.status == kClientLeft) ++metrics_.aborted;
    throw;
  }
  ended_ = true;
  return true;
}

void Exchange::run(httplib::Response& response) {
  scheduler_.submit(answer_.job());
  metrics_.prompt_tokens += answer_.prompt_tokens();
  if (!answer_.request().stream) {
    follow([](const TokenEvent&) { return true; });
    response.status = 200;
    response.set_content(answer_.whole(), "application/json");
    return;
  }
  response.set_header("Cache-Control", "no-store");
  const auto write = [self = shared_from_this()](size_t, httplib::DataSink& sink) { return self->write_stream(sink); };
  const char* const type = "text/event-stream";
  if (Connection::current().takes_chunks()) return response.set_chunked_content_provider(type, write);
  Connection::current().close_after();  // the end of the connection is that of the stream
  response.set_content_provider(type, write);
}

// Writes the whole stream in one call, because cpp-httplib makes no further calls after stop(). Returning false closes the connection.
bool Exchange::write_stream(httplib::DataSink& sink) {
  try {
    for (const OrderedJson& chunk : answer_.first_chunks())
      if (!write_event(sink, text_of(chunk))) return false;
    const auto send = [&](const TokenEvent& event) {
      const OrderedJson chunk = answer_.chunk(event);
      return chunk.is_null() || write_event(sink, text_of(chunk));
    };
    if (!follow(send)) {
      ++metrics_.aborted;
      return false;
    }
    if (answer_.request().include_usage && !write_event(sink, text_of(answer_.usage_chunk()))) return false;
    if (!write_event(sink, "[DONE]")) return false;
  } catch (const ApiError& error) {
    if (error.status == kClientLeft || !write_event(sink, error_json(error))) return false;
  }
  sink.done();
  return true;
}

}  // namespace weft::serve
