// Load generator for an OpenAI-compatible server on this machine. Each client has one request in flight and sends the next one when the
// answer is complete.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::bench {

struct ServeLoad {
  std::string url;  // http://127.0.0.1:8080; other hosts than this machine are refused
  std::string api_key;
  int64_t clients = 8;
  int64_t requests = 64;       // total, over all clients
  int64_t prompt_tokens = 32;  // per request: random ids, so that prompts share no prefix
  int64_t new_tokens = 128;    // per request: greedy, end tokens ignored
  uint32_t seed = 0;           // of the random ids; with a seed used before, the server may still have the prompts in its KV cache
};

struct ServeResult {
  double seconds = 0;  // from the start of the first request to the end of the last answer
  int64_t answered = 0, prompt_tokens = 0, new_tokens = 0;
  std::vector<double> first;              // seconds from a request to its first token, sorted
  std::vector<double> between;            // seconds between two tokens of an answer, sorted
  std::map<std::string, int64_t> errors;  // number of failed requests by reason
};

// The percentile `share` (0 to 1) of sorted values; 0 if there are none.
double percentile(const std::vector<double>& sorted, double share);

// Each client first sends one warm-up request that is not counted. Throws if the host is not this machine, if a number is out of range or
// if the server does not answer at all.
ServeResult measure_server(const ServeLoad& load);

}  // namespace weft::bench
