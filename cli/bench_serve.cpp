#include "cli/bench_serve.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace weft::cli {
namespace {

constexpr double kHalf = 0.5, kMost = 0.99;

nlohmann::ordered_json times(const std::vector<double>& sorted) {
  return {{"p50_ms", bench::percentile(sorted, kHalf) * 1e3}, {"p99_ms", bench::percentile(sorted, kMost) * 1e3}};
}

void print_json(const bench::ServeLoad& load, const bench::ServeResult& r) {
  nlohmann::ordered_json report = {{"url", load.url},
                                   {"clients", load.clients},
                                   {"requests", load.requests},
                                   {"prompt_tokens", load.prompt_tokens},
                                   {"new_tokens", load.new_tokens},
                                   {"seconds", r.seconds},
                                   {"answered", r.answered},
                                   {"requests_per_second", double(r.answered) / r.seconds},
                                   {"new_tokens_per_second", double(r.new_tokens) / r.seconds},
                                   {"first_token", times(r.first)},
                                   {"between_tokens", times(r.between)},
                                   {"errors", r.errors}};
  std::printf("%s\n", report.dump(2).c_str());
}

void print_times(const char* what, const std::vector<double>& sorted) {
  std::printf("%-20s p50 %9.2f ms  p99 %9.2f ms\n", what, bench::percentile(sorted, kHalf) * 1e3, bench::percentile(sorted, kMost) * 1e3);
}

void print(const bench::ServeLoad& load, const bench::ServeResult& r) {
  std::printf("%s: %ld clients, %ld requests of %ld prompt tokens and %ld new ones\n", load.url.c_str(), long(load.clients),
              long(load.requests), long(load.prompt_tokens), long(load.new_tokens));
  std::printf("%ld answered in %.2f s: %.2f requests/s, %.1f new tokens/s\n", long(r.answered), r.seconds, double(r.answered) / r.seconds,
              double(r.new_tokens) / r.seconds);
  print_times("time to first token", r.first);
  print_times("between tokens", r.between);
  for (const auto& [error, count] : r.errors) std::printf("%ld failed: %s\n", long(count), error.c_str());
}

}  // namespace

int bench_serve(const bench::ServeLoad& load, bool json) {
  const bench::ServeResult result = bench::measure_server(load);
  json ? print_json(load, result) : print(load, result);
  return result.errors.empty() ? kOk : kFailed;
}

}  // namespace weft::cli
