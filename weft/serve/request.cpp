#include "weft/serve/request.h"

#include <limits>

#include "weft/serve/api_error.h"
#include "weft/serve/conversation_json.h"
#include "weft/serve/fields.h"

namespace weft::serve {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr double kMostTemperature = 100;

Ids ids_of(const Json& list) {
  Ids ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > INT32_MAX)
      refuse("prompt", "prompt has ", shown_value(id), ", expected token ids");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// A text, a list of texts, a list of ids, or a list of lists of ids.
std::vector<Prompt> prompts_of(const Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) refuse("prompt", "prompt is missing");
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array() || prompt->empty())
    refuse("prompt", "prompt is ", shown_value(*prompt), ", expected a text, token ids, or a list of either");
  if (prompt->front().is_number()) return {ids_of(*prompt)};
  std::vector<Prompt> prompts;
  for (const Json& one : *prompt) {
    if (one.is_string())
      prompts.emplace_back(one.get<std::string>());
    else if (one.is_array())
      prompts.emplace_back(ids_of(one));
    else
      refuse("prompt", "prompt has ", shown_value(one), ", expected a text or a list of token ids");
  }
  return prompts;
}

// Refuses unsupported parameters that would change the answer, unless they have their neutral value.
void check_unsupported(const Fields& fields) {
  for (const char* key : {"presence_penalty", "frequency_penalty"})
    if (fields.number(key, -2, 2).value_or(0) != 0) refuse(key, key, " is not supported; repetition_penalty is");
  if (const Json* bias = fields.find("logit_bias"); bias && !bias->empty()) refuse("logit_bias", "logit_bias is not supported");
  if (!fields.text("suffix").empty()) refuse("suffix", "suffix is not supported");
  if (const Json* format = fields.find("response_format"); format && *format != Json{{"type", "text"}})
    refuse("response_format", "response_format is ", shown_value(*format), ", only {\"type\": \"text\"} is supported");
  if (const Json* functions = fields.find("functions"); functions && !functions->empty())
    refuse("functions", "functions is not supported; tools are");
  if (const Json* choice = fields.find("tool_choice"); choice && *choice != "auto" && *choice != "none")
    refuse("tool_choice", "tool_choice is ", shown_value(*choice), ", only \"auto\" and \"none\" are supported");
}

SamplingRequest sampling_of(const Fields& fields) {
  SamplingRequest sampling;
  sampling.temperature = fields.number("temperature", 0, kMostTemperature);
  sampling.top_p = fields.number("top_p", 0, 1);
  sampling.min_p = fields.number("min_p", 0, 1);
  sampling.top_k = fields.integer("top_k", -1, kAny);  // -1 means all, as in other servers
  if (sampling.top_k == -1) sampling.top_k = 0;
  sampling.repetition_penalty = fields.number("repetition_penalty", 0.01, 100);
  if (const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(), kAny)) sampling.seed = uint64_t(*seed);
  return sampling;
}

GenerationRequest common(const Fields& fields) {
  check_unsupported(fields);
  GenerationRequest request;
  request.model = fields.text("model");
  request.sampling = sampling_of(fields);
  request.max_tokens = fields.integer("max_tokens", 0, kAny);
  request.n = fields.integer("n", 1, kMostSequences).value_or(1);
  request.stop = fields.texts("stop");
  if (int64_t(request.stop.size()) > kMostStops) refuse("stop", "stop has ", request.stop.size(), " texts, at most ", kMostStops);
  std::erase(request.stop, "");  // an empty stop string has no effect
  for (const std::string& stop : request.stop)
    if (stop.size() > kMostStop) refuse("stop", "stop has a text of ", stop.size(), " bytes, at most ", kMostStop);
  request.ignore_eos = fields.boolean("ignore_eos", false);
  request.stream = fields.boolean("stream", false);
  if (const Json* options = fields.find("stream_options")) {
    if (!options->is_object()) refuse("stream_options", "stream_options is ", shown_value(*options), ", expected an object");
    if (!request.stream) refuse("stream_options", "stream_options needs \"stream\": true");
    request.include_usage = Fields(*options).boolean("include_usage", false);
  }
  return request;
}

}  // namespace

GenerationRequest parse_completion(std::string_view body) {
  const Json document = parse_body(body);
  const Fields fields(document);
  GenerationRequest request = common(fields);
  request.prompts = prompts_of(fields);
  if (int64_t(request.prompts.size()) * request.n > kMostSequences)
    refuse("prompt", request.prompts.size(), " prompts with n ", request.n, " are more than ", kMostSequences, " continuations");
  request.echo = fields.boolean("echo", false);
  if (const auto top = fields.integer("logprobs", 0, kMostTop)) {
    request.log_probabilities = true;
    request.top_log_probabilities = *top;
  }
  if (fields.integer("best_of", 1, kMostSequences).value_or(request.n) != request.n) refuse("best_of", "best_of is not supported");
  if (request.stream && request.echo && request.log_probabilities) refuse("stream", "echo with logprobs is not streamed");
  return request;
}

GenerationRequest parse_chat(std::string_view body) {
  const Json document = parse_body(body);
  const Fields fields(document);
  GenerationRequest request = common(fields);
  request.chat = true;
  request.conversation = conversation_json(body);
  if (const auto most = fields.integer("max_completion_tokens", 0, kAny)) request.max_tokens = most;
  request.log_probabilities = fields.boolean("logprobs", false);
  request.top_log_probabilities = fields.integer("top_logprobs", 0, kMostTop).value_or(0);
  if (request.top_log_probabilities > 0 && !request.log_probabilities) refuse("top_logprobs", "top_logprobs needs \"logprobs\": true");
  return request;
}

TokenizeRequest parse_tokenize(std::string_view body) {
  const Json document = parse_body(body);
  const Fields fields(document);
  TokenizeRequest request;
  request.add_special = fields.boolean("add_special_tokens", true);
  request.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  const bool chat = fields.find("messages") != nullptr;
  const char* key = fields.find("prompt") ? "prompt" : "text";
  if (chat == (fields.find(key) != nullptr)) refuse("text", "expected either text (or prompt) or messages");
  if (chat)
    request.conversation = conversation_json(body);
  else
    request.text = fields.text(key);
  return request;
}

}  // namespace weft::serve
