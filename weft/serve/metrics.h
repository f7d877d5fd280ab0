// Counters of the server in Prometheus's text format.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace weft::serve {

class Metrics {
 public:
  void count_request(const std::string& endpoint, int status);
  void count_first_token(double seconds);
  std::string text() const;

  std::atomic<int64_t> prompt_tokens = 0, new_tokens = 0;  // tokens of admitted prompts; sampled tokens
  std::atomic<int64_t> reused_tokens = 0;                  // prompt tokens found in pages of other sequences
  std::atomic<int64_t> running = 0, waiting = 0;           // number of sequences
  std::atomic<int64_t> aborted = 0;                        // requests whose client left

 private:
  static constexpr std::array<double, 12> kBounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};  // seconds

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  std::array<int64_t, kBounds.size() + 1> first_tokens_ = {};  // by bound; the last counts times above all bounds
  double first_token_seconds_ = 0;
};

}  // namespace weft::serve
