#include "weft/serve/metrics.h"

#include <algorithm>
#include <cstdio>

#include "weft/base/check.h"

namespace weft::serve {

void Metrics::count_request(const std::string& endpoint, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{endpoint, status}];
}

void Metrics::count_first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  ++first_tokens_[size_t(std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin())];
  first_token_seconds_ += seconds;
}

std::string Metrics::text() const {
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text += join("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  };
  const auto single = [&](const char* name, const char* type, const char* help, int64_t value) {
    head(name, type, help);
    text += join(name, " ", value, "\n");
  };
  single("weft_prompt_tokens_total", "counter", "Tokens of the prompts of admitted requests.", prompt_tokens);
  single("weft_reused_tokens_total", "counter", "Prompt tokens whose keys and values were found in the pages of other sequences.",
         reused_tokens);
  single("weft_new_tokens_total", "counter", "Tokens sampled.", new_tokens);
  single("weft_sequences_running", "gauge", "Sequences being read or decoded.", running);
  single("weft_sequences_waiting", "gauge", "Sequences that wait to be admitted to the batch.", waiting);
  single("weft_requests_aborted_total", "counter", "Requests whose client left before the end.", aborted);
  const std::lock_guard lock(mutex_);
  head("weft_requests_total", "counter", "Requests by endpoint and HTTP status.");
  for (const auto& [key, count] : requests_)
    text += join("weft_requests_total{endpoint=\"", key.first, "\",status=\"", key.second, "\"} ", count, "\n");
  const char* histogram = "weft_time_to_first_token_seconds";
  head(histogram, "histogram", "Time from a request to its first token.");
  int64_t total = 0;
  for (size_t i = 0; i <= kBounds.size(); ++i) {
    total += first_tokens_[i];
    text += join(histogram, "_bucket{le=\"", i < kBounds.size() ? join(kBounds[i]) : "+Inf", "\"} ", total, "\n");
  }
  char seconds[64];  // join() would print six significant digits
  std::snprintf(seconds, sizeof seconds, "%.6f", first_token_seconds_);
  return text + join(histogram, "_sum ", seconds, "\n", histogram, "_count ", total, "\n");
}

}  // namespace weft::serve
