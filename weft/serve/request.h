// Parses and checks requests of OpenAI's API, independently of the model. Errors are ApiErrors that name the parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::serve {

using Ids = std::vector<int32_t>;
using Prompt = std::variant<std::string, Ids>;

// Sampling settings of the request, which override the folder's generation_config.json.
struct SamplingRequest {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
  std::optional<uint64_t> seed;
};

struct GenerationRequest {
  bool chat = false;
  std::string model;            // "": not given
  std::vector<Prompt> prompts;  // for a completion
  std::string conversation;     // for a chat: JSON for Conversation::parse
  SamplingRequest sampling;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;  // end tokens do not end the text
  int64_t n = 1;            // continuations of each prompt
  bool log_probabilities = false;
  int64_t top_log_probabilities = 0;
  bool echo = false;  // the text begins with the prompt
  bool stream = false, include_usage = false;
};

inline constexpr int64_t kMostSequences = 1024;                     // per request: prompts times n
inline constexpr int64_t kMostTop = 20;                             // OpenAI's limit of top_logprobs
inline constexpr int64_t kMostStops = 16;                           // OpenAI allows 4; each costs a search per token
inline constexpr size_t kMostStop = 1024;                           // bytes per stop string
inline constexpr int64_t kMostLogProbabilities = int64_t(1) << 18;  // per request: new tokens times (1 + top), each about 100 bytes

GenerationRequest parse_completion(std::string_view body);  // /v1/completions
GenerationRequest parse_chat(std::string_view body);        // /v1/chat/completions

// A request of /tokenize: a text, or the messages of a chat.
struct TokenizeRequest {
  std::optional<std::string> text;
  std::string conversation;
  bool add_special = true;            // for a text: add special tokens such as BOS
  bool add_generation_prompt = true;  // for a chat
};
TokenizeRequest parse_tokenize(std::string_view body);

}  // namespace weft::serve
