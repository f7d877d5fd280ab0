// Requests of OpenAI's API as types: parsed and checked, before any model is involved. Errors are ApiErrors that name the parameter.
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

// Settings that override the folder's generation_config.json.
struct SamplingRequest {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
  std::optional<uint64_t> seed;
};

struct GenerationRequest {
  bool chat = false;
  std::string model;            // "": not given
  std::vector<Prompt> prompts;  // of a completion
  std::string conversation;     // of a chat: JSON for Conversation::parse
  SamplingRequest sampling;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;  // continues after tokens that end a text
  int64_t n = 1;            // continuations of each prompt
  bool log_probabilities = false;
  int64_t top_log_probabilities = 0;
  bool echo = false;  // the prompt comes first in the text
  bool stream = false, include_usage = false;
};

inline constexpr int64_t kMostSequences = 1024;                     // of one request: prompts times n
inline constexpr int64_t kMostTop = 20;                             // OpenAI's limit of top_logprobs
inline constexpr int64_t kMostStops = 16;                           // OpenAI allows 4; each costs a search per token
inline constexpr size_t kMostStop = 1024;                           // bytes of one
inline constexpr int64_t kMostLogProbabilities = int64_t(1) << 18;  // of one request: new tokens times (1 + top); each takes some 100 bytes

GenerationRequest parse_completion(std::string_view body);  // /v1/completions
GenerationRequest parse_chat(std::string_view body);        // /v1/chat/completions

// /tokenize: a text, or the messages of a chat.
struct TokenizeRequest {
  std::optional<std::string> text;
  std::string conversation;
  bool add_special = true;            // tokens around a text, such as BOS
  bool add_generation_prompt = true;  // of a chat
};
TokenizeRequest parse_tokenize(std::string_view body);

}  // namespace weft::serve
