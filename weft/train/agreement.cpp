#include "weft/train/agreement.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>

#include "weft/base/check.h"
#include "weft/base/progress.h"

namespace weft {

// Ranks other than 0 talk to rank 0 alone.
struct Agreement::Message {
  enum class Kind : int64_t { done, working, request } kind = Kind::done;
  int64_t text = 0;      // done: bytes of the results, which follow
  Request request = {};  // to the rank that serves it; the bytes are its answer
};

struct Agreement::Result {
  enum class End : char { success, stopped, failed, absent } end = End::success;
  ErrorCode code = ErrorCode::device_fault;
  std::string where = {}, text = {};
  bool operator==(const Result&) const = default;
};

// Tells the ranks that wait for this one that it is alive.
class Agreement::Alive : public ProgressListener {
 public:
  explicit Alive(const Agreement& ranks) : ranks_(ranks) {}
  void progress(const Work&) override { tell(); }
  void part() override { tell(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  // The longer the work takes, the rarer: those that do not wait yet do not receive the messages yet.
  void tell() {
    const auto now = Clock::now();
    const Seconds pause = std::min(std::max(Seconds(0.25), Seconds(now - began_) / 16), ranks_.timeout_ / 4);
    if (now - told_ < pause) return;
    told_ = now;
    const Message working{.kind = Message::Kind::working};
    ranks_.communicator_.first() ? ranks_.send_to_others(working) : ranks_.send(0, working);
  }

  const Agreement& ranks_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point told_ = began_;
};

namespace {

void put(std::string& out, std::string_view text) {
  const uint64_t size = text.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += text;
}

std::string take(std::string_view& from) {
  const auto cut = [&](void* to, size_t bytes) {  // fails on a message of another build
    check(from.size() >= bytes, "train", "the ranks do not understand each other: their builds differ");
    std::memcpy(to, from.data(), bytes);
    from.remove_prefix(bytes);
  };
  uint64_t size = 0;
  cut(&size, sizeof size);
  std::string text(std::min<size_t>(size, from.size() + 1), '\0');
  cut(text.data(), text.size());
  return text;
}

// "rank 1 on node-b", "ranks 1, 2 and 3", "ranks 1, 2, 3, 4 and 60 others"
std::string names_of(const std::vector<int>& ranks, const Communicator& communicator) {
  if (ranks.size() == 1) return communicator.name_of(ranks[0]);
  constexpr size_t kMost = 4;
  const size_t listed = ranks.size() <= kMost ? ranks.size() - 1 : kMost;
  std::string text = join("ranks ", ranks[0]);
  for (size_t i = 1; i < listed; ++i) text += join(", ", ranks[i]);
  return text + (ranks.size() <= kMost ? join(" and ", ranks.back())
                                       : join(" and ", ranks.size() - kMost, ranks.size() == kMost + 1 ? " other" : " others"));
}

}  // namespace

std::string Agreement::packed(const std::vector<Result>& results) {
  std::string text;
  for (const Result& result : results) {
    put(text, {&reinterpret_cast<const char&>(result.end), 1});
    put(text, std::to_string(int(result.code)));
    put(text, result.where);
    put(text, result.text);
  }
  return text;
}

std::vector<Agreement::Result> Agreement::unpacked(std::string_view text) {
  std::vector<Result> results;
  while (!text.empty()) {
    const std::string end = take(text), code = take(text), where = take(text);
    results.push_back({Result::End(end.empty() ? 0 : end[0]), ErrorCode(std::atoi(code.c_str())), where, take(text)});
  }
  return results;
}

Agreement::Result Agreement::result_of(const std::function<void()>& work) const {
  using End = Result::End;
  Alive alive(*this);
  const Listening listening(alive);
  try {
    work();
  } catch (const Stopped&) {
    return {.end = End::stopped};
  } catch (const Error& error) {
    return {End::failed, error.code(), error.where(), std::string(error.what()).substr(error.where().size() + 2)};
  } catch (const std::bad_alloc&) {
    return {End::failed, ErrorCode::device_fault, "train", "out of memory"};
  } catch (const std::exception& error) {
    return {End::failed, ErrorCode::device_fault, "train", error.what()};
  }
  return {};
}

void Agreement::send(int to, const Message& message, const std::string& text) const {
  std::vector<HostOutgoing> out = {{to, std::as_bytes(std::span(&message, 1))}};
  if (!text.empty()) out.push_back({to, std::as_bytes(std::span(text))});
  communicator_.exchange(out, {});
}

void Agreement::send_to_others(const Message& message, const std::string& text, int except) const {
  std::vector<HostOutgoing> out;
  for (int to = 1; to < communicator_.size(); ++to) {
    if (to == except) continue;
    out.push_back({to, std::as_bytes(std::span(&message, 1))});
    if (!text.empty()) out.push_back({to, std::as_bytes(std::span(text))});
  }
  communicator_.exchange(out, {});
}

Agreement::Message Agreement::receive(int from) const {
  Message message;
  const std::array in = {HostIncoming{from, std::as_writable_bytes(std::span(&message, 1))}};
  communicator_.exchange({}, in);
  return message;
}

std::string Agreement::receive_text(int from, int64_t bytes) const {
  std::string text(size_t(bytes), '\0');
  const std::array in = {HostIncoming{from, std::as_writable_bytes(std::span(text))}};
  if (bytes > 0) communicator_.exchange({}, in);
  return text;
}

void Agreement::read(int from, const Request& request, std::span<std::byte> into) const {
  send(from, {.kind = Message::Kind::request, .request = request});
  const std::array in = {HostIncoming{from, into}};
  communicator_.exchange({}, in);
}

// Answers rank 0's requests until it is done, and returns the results it sends.
std::string Agreement::wait_for_first(const Serve& serve) const {
  std::vector<std::byte> answer;
  for (;;) {
    const Message message = receive(0);
    if (message.kind == Message::Kind::done) return receive_text(0, message.text);
    if (message.kind == Message::Kind::working) continue;
    answer.resize(size_t(message.request.bytes));
    serve(message.request, answer);
    const std::array out = {HostOutgoing{0, answer}};
    communicator_.exchange(out, {});
  }
}

// One error that all have stays as it is; others are listed with their ranks.
void Agreement::conclude(const std::vector<Result>& results) const {
  using End = Result::End;
  const auto failed = [](const Result& r) { return r.end == End::failed; };
  const auto first = std::find_if(results.begin(), results.end(), failed);
  if (first == results.end()) {
    if (std::any_of(results.begin(), results.end(), [](const Result& r) { return r.end == End::stopped; })) throw Stopped();
    return;
  }
  if (std::all_of(results.begin(), results.end(), [&](const Result& r) { return r == *first || r.end == End::absent; }))
    throw AgreedError(first->code, first->where, first->text);
  std::vector<Result> named;
  std::string where, text;
  for (const Result& result : results) {
    constexpr size_t kMost = 4;  // different errors that are printed
    if (!failed(result) || named.size() == kMost || std::find(named.begin(), named.end(), result) != named.end()) continue;
    std::vector<int> ranks;
    for (size_t r = 0; r < results.size(); ++r)
      if (results[r] == result) ranks.push_back(int(r));
    if (named.empty()) where = names_of(ranks, communicator_);
    text += join(named.empty() ? "" : join("\nweft: ", names_of(ranks, communicator_), ": "), result.where, ": ", result.text);
    named.push_back(result);
  }
  throw AgreedError(first->code, where, text);
}

void Agreement::some(bool takes_part, const std::function<void()>& work) const {
  if (!several()) return work();
  std::vector<Result> results = {takes_part ? result_of(work) : Result{.end = Result::End::absent}};
  if (!communicator_.first()) {
    const std::string own = packed(results);
    send(0, {.text = int64_t(own.size())}, own);
    return conclude(unpacked(wait_for_first({})));
  }
  for (int from = 1; from < communicator_.size(); ++from) {
    Message message = receive(from);
    for (; message.kind == Message::Kind::working; message = receive(from)) send_to_others(message, {}, from);  // some wait already
    const std::vector<Result> one = unpacked(receive_text(from, message.text));
    results.insert(results.end(), one.begin(), one.end());
  }
  const std::string all = packed(results);
  send_to_others({.text = int64_t(all.size())}, all);
  conclude(results);
}

void Agreement::first(const std::function<void()>& work, const Serve& serve) const {
  if (!several()) return work();
  if (!communicator_.first()) return conclude(unpacked(wait_for_first(serve)));
  const std::vector<Result> own = {result_of(work)};
  const std::string text = packed(own);
  send_to_others({.text = int64_t(text.size())}, text);
  conclude(own);
}

}  // namespace weft
