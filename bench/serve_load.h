// Load for a server of OpenAI's API on this machine: clients that send a request each, and the next one when its answer has ended.
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
  int64_t requests = 64;       // in all
  int64_t prompt_tokens = 32;  // of each: random ids, so that no prompt begins like another
  int64_t new_tokens = 128;    // of each: greedy, past the end of the text
  uint32_t seed = 0;           // of the ids: a server that was sent the same prompts before has their pages
};

struct ServeResult {
  double seconds = 0;  // from the first request to the end of the last answer
  int64_t answered = 0, prompt_tokens = 0, new_tokens = 0;
  std::vector<double> first;              // seconds from a request to its first token, sorted
  std::vector<double> between;            // seconds between two tokens of an answer, sorted
  std::map<std::string, int64_t> errors;  // requests that were not answered, by reason
};

// The value below which a share of the sorted ones lies; 0 if there are none.
double percentile(const std::vector<double>& sorted, double share);

// Each client first sends one request that is not counted. Throws if the host is not this machine, a number is out of range or the server
// does not answer at all.
ServeResult measure_server(const ServeLoad& load);

}  // namespace weft::bench
