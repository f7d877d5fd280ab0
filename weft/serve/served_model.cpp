#include "weft/serve/served_model.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "weft/generate/chat_session.h"
#include "weft/serve/api_error.h"

namespace weft::serve {
namespace {

constexpr int64_t kDefaultTokens = 128;  // for completions, as in weft generate; a chat may fill the context

uint64_t new_seed() {
  std::random_device device;
  // Below 2^53, because the answer reports it and JavaScript's numbers must hold it exactly.
  return (uint64_t(device()) << 21) ^ device();
}

// Removes trailing slashes, so that the paths match those of files in error messages.
std::vector<std::string> without_slash(std::vector<std::string> paths) {
  for (std::string& path : paths)
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return paths;
}

}  // namespace

ServedModel::ServedModel(const ModelFolder& folder, std::string name, std::optional<ChatFormat> format, int64_t positions,
                         std::vector<std::string> private_paths, std::vector<std::string> adapters)
    : name_(std::move(name)),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()),
      positions_(positions),
      vocabulary_(folder.config().vocab_size),
      tokenizer_(folder.has_tokenizer() ? &folder.tokenizer() : nullptr),
      sampling_(weft::sampling_of(folder.generation())),
      max_new_tokens_(folder.generation().max_new_tokens),
      end_ids_(folder.end_ids()),
      format_(std::move(format)),
      private_paths_(without_slash(std::move(private_paths))),
      adapters_(std::move(adapters)) {
  if (format_) chat_end_ids_ = end_of_turn_ids(folder, *format_);
}

SamplingOptions ServedModel::sampling(const SamplingRequest& request) const {
  SamplingOptions sampling = sampling_;
  // Top-k, top-p and min-p only matter when tokens are sampled, so they turn sampling on, as the flags of weft generate do.
  const bool filtered = request.top_k || request.top_p.value_or(1) < 1 || request.min_p;
  if (filtered && sampling.temperature == 0) sampling.temperature = 1;
  sampling.temperature = request.temperature.value_or(sampling.temperature);
  sampling.top_k = request.top_k.value_or(sampling.top_k);
  sampling.top_p = request.top_p.value_or(sampling.top_p);
  sampling.min_p = request.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = request.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.seed = request.seed ? *request.seed : sampling.temperature > 0 ? new_seed() : 0;
  return sampling;
}

int64_t ServedModel::max_tokens(const GenerationRequest& request, size_t prompt_tokens) const {
  const int64_t room = positions_ - int64_t(prompt_tokens);
  if (request.max_tokens.value_or(1) > room) {
    const std::string wanted =
        request.max_tokens ? join(" and max_tokens is ", *request.max_tokens, ": more than") : ": no room for a new one in";
    ApiError error = api_error(400, join("the prompt has ", prompt_tokens, " tokens", wanted, " the context of ", positions_),
                               "invalid_request_error", "context_length_exceeded");
    error.param = request.max_tokens ? "max_tokens" : request.chat ? "messages" : "prompt";
    throw error;
  }
  const int64_t usual = max_new_tokens_.value_or(request.chat ? room : kDefaultTokens);
  return request.max_tokens.value_or(std::clamp<int64_t>(usual, 1, room));
}

const Tokenizer& ServedModel::need_tokenizer() const {
  if (!tokenizer_) refuse("prompt", "this model has no tokenizer: only /v1/completions with token ids works");
  return *tokenizer_;
}

Ids ServedModel::encode(const Prompt& prompt, const char* param) const {
  const auto* given = std::get_if<Ids>(&prompt);
  Ids ids = given ? *given : need_tokenizer().encode_prompt(std::get<std::string>(prompt));
  if (ids.empty()) refuse(param, "the prompt encodes to zero tokens");
  for (int32_t id : ids)
    if (id >= vocabulary_) refuse(param, "the prompt has token ", id, ", the vocabulary ends at ", vocabulary_ - 1);
  if (int64_t(ids.size()) > positions_) {
    ApiError error = api_error(400, join("the prompt has ", ids.size(), " tokens, the context is ", positions_), "invalid_request_error",
                               "context_length_exceeded");
    error.param = param;
    throw error;
  }
  return ids;
}

Ids ServedModel::encode_chat(const std::string& conversation, bool add_generation_prompt) const {
  if (!format_) refuse("messages", "this model has no chat template; /v1/completions continues a text");
  const Conversation parsed = Conversation::parse(conversation, "the request");
  const Tokenizer& tokenizer = need_tokenizer();
  std::string text;
  {
    const std::lock_guard lock(rendering_);
    text = format_->render(parsed, add_generation_prompt);
  }
  return tokenizer.encode(text, /*add_special=*/false);
}

std::string ServedModel::adapter_of(const std::string& model) const {
  if (model.empty() || model == name_) return "";
  if (std::ranges::find(adapters_, model) != adapters_.end()) return model;
  std::string names = "'" + name_ + "'";
  for (const std::string& adapter : adapters_) names += ", '" + adapter + "'";
  ApiError error =
      api_error(404, join("the model '", model, "' does not exist; this server has ", names), "invalid_request_error", "model_not_found");
  error.param = "model";
  throw error;
}

std::string ServedModel::public_text(std::string text) const {
  const auto replace = [&](const std::string& hidden, const std::string& by) {
    for (size_t at = 0; hidden.size() > 1 && (at = text.find(hidden, at)) != text.npos; at += by.size())
      text.replace(at, hidden.size(), by);
  };
  for (const std::string& path : private_paths_) {
    replace(path + "/", "");
    replace(path, name_);
  }
  return text;
}

}  // namespace weft::serve
