#include "weft/serve/answer.h"

#include <chrono>
#include <random>
#include <string_view>

namespace weft::serve {
namespace {

std::string new_id(const char* prefix) {
  std::random_device device;
  char text[32];
  std::snprintf(text, sizeof text, "%08x%08x%08x", device(), device(), device());
  return std::string(prefix) + text;
}

OrderedJson finish_reason(const std::optional<FinishReason>& reason) {
  if (!reason) return nullptr;
  return *reason == FinishReason::length ? "length" : "stop";
}

OrderedJson or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); }

// Inserts `items` into the empty list `key` of `json`. The list is found as text; strings in the JSON cannot match, as their quotes are
// escaped.
std::string with_items(std::string json, std::string_view key, const std::string& items) {
  const std::string list = weft::join("\"", key, "\":[");
  const size_t at = json.find(list + "]");
  json.insert(at + list.size(), items);
  return json;
}

}  // namespace

std::string text_of(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

std::string error_json(const ApiError& error) {
  return text_of(
      {{"error", {{"message", error.message}, {"type", error.type}, {"param", or_null(error.param)}, {"code", or_null(error.code)}}}});
}

Answer::Answer(GenerationRequest request, const ServedModel& model)
    : request_(std::move(request)),
      model_(model),
      id_(new_id(request_.chat ? "chatcmpl-" : "cmpl-")),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()),
      sampling_(model.sampling(request_.sampling)),
      adapter_(model.adapter_of(request_.model)),
      job_(std::make_shared<Job>()) {
  if (!request_.stop.empty() && !model.tokenizer()) refuse("stop", "this model has no tokenizer: there is no text to stop");
  if (request_.chat) {
    add_sequences(model.encode(model.encode_chat(request_.conversation), "messages"));
  } else {
    for (const Prompt& prompt : request_.prompts) add_sequences(model.encode(prompt));
  }
  job_->stop = request_.stop;
  job_->answer = request_.chat;
  job_->scored_top = request_.top_log_probabilities;
  job_->adapter = adapter_;
  if (request_.echo && request_.log_probabilities) job_->scored = prompts_;
  choices_.resize(job_->sequences.size());
  open_ = choices_.size();
  check_memory();
}

// Bounds the log-probabilities, which stay in memory until the answer is sent.
void Answer::check_memory() const {
  if (!request_.log_probabilities) return;
  int64_t tokens = 0;
  for (const Job::Sequence& sequence : job_->sequences) tokens += sequence.options.max_tokens;
  for (const auto& prompt : job_->scored) tokens += int64_t(prompt->size());
  const int64_t count = tokens * (1 + request_.top_log_probabilities);
  if (count > kMostLogProbabilities && !request_.stream)
    refuse(request_.chat ? "top_logprobs" : "logprobs", "up to ", tokens, " tokens with ", 1 + request_.top_log_probabilities,
           " log-probabilities each are more than ", kMostLogProbabilities, "; a smaller max_tokens or n, or a stream");
}

void Answer::add_sequences(Ids given) {
  const auto ids = std::make_shared<const Ids>(std::move(given));
  SequenceOptions options{.sampling = sampling_,
                          .max_tokens = model_.max_tokens(request_, ids->size()),
                          .end_ids = request_.ignore_eos ? Ids() : model_.end_ids(request_.chat),
                          .log_probabilities = request_.log_probabilities,
                          .top_log_probabilities = request_.top_log_probabilities,
                          .adapter = adapter_};
  for (int64_t i = 0; i < request_.n; ++i) {
    options.occurrence = uint32_t(i);
    job_->sequences.push_back({ids, options});
  }
  prompt_tokens_ += int64_t(ids->size());
  prompts_.push_back(ids);
}

void Answer::add(const TokenEvent& event) {
  Choice& choice = choices_[event.choice];
  choice.text += event.text;
  if (event.id >= 0) ++new_tokens_;
  if (event.log_probability && !request_.stream) choice.log_probabilities.push_back(*event.log_probability);
  if (event.finished && !choice.finished) --open_;
  if (event.finished) choice.finished = event.finished;
}

OrderedJson Answer::head(bool chunk) const {
  const char* object = !request_.chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  OrderedJson json{{"id", id_},
                   {"object", object},
                   {"created", created_},
                   {"model", adapter_.empty() ? model_.name() : adapter_},
                   {"choices", OrderedJson::array()}};
  if (sampling_.temperature > 0) json["seed"] = int64_t(sampling_.seed);  // with it the client can repeat the answer
  return json;
}

OrderedJson Answer::usage() const {
  return {{"prompt_tokens", prompt_tokens_}, {"completion_tokens", new_tokens_}, {"total_tokens", prompt_tokens_ + new_tokens_}};
}

std::string Answer::echoed(size_t prompt) const {
  if (!request_.echo) return "";
  if (const auto* text = std::get_if<std::string>(&request_.prompts[prompt])) return *text;
  return model_.tokenizer() ? model_.tokenizer()->decode(*prompts_[prompt], true) : "";
}

OrderedJson Answer::log_probabilities(const Choice& choice, size_t prompt, const PromptScores* scores) const {
  if (!request_.log_probabilities) return nullptr;
  if (request_.chat) {
    OrderedJson content = OrderedJson::array();
    for (const auto& token : choice.log_probabilities) content.push_back(chat_log_probability(model_.tokenizer(), token));
    return {{"content", std::move(content)}};
  }
  CompletionLogProbabilities lists(model_.tokenizer(), request_.top_log_probabilities);
  TextLength length = choice.streamed;
  if (scores) {
    const Ids& ids = *prompts_[prompt];
    const std::string text = echoed(prompt);
    const std::vector<int64_t> offsets = prompt_offsets(model_.tokenizer(), ids, text);
    lists.add({{ids.front(), 0}, {}}, false, offsets.front());
    for (size_t i = 0; i < scores->size(); ++i) lists.add((*scores)[i], true, offsets[i + 1]);
    length = TextLength(text);
  }
  for (const auto& token : choice.log_probabilities) {
    lists.add(token, true, length.characters());
    length.add_token(model_.tokenizer(), token.id);
  }
  return lists.json();
}

// Writes the log-probabilities of a chat token by token: one JSON value would take ten times the memory of their text.
std::string Answer::choice_text(size_t index, const PromptScores* scores) const {
  const Choice& choice = choices_[index];
  const size_t prompt = index / size_t(request_.n);
  const bool by_token = request_.chat && request_.log_probabilities;
  OrderedJson one{{"index", index}};
  if (request_.chat)
    one["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  else
    one["text"] = echoed(prompt) + choice.text;
  one["logprobs"] = by_token ? OrderedJson{{"content", OrderedJson::array()}} : log_probabilities(choice, prompt, scores);
  one["finish_reason"] = finish_reason(choice.finished);
  std::string text = text_of(one);
  if (!by_token) return text;
  std::string content;
  for (const auto& token : choice.log_probabilities)
    content += (content.empty() ? "" : ",") + text_of(chat_log_probability(model_.tokenizer(), token));
  return with_items(std::move(text), "content", content);
}

std::string Answer::whole() const {
  OrderedJson json = head(false);
  json["usage"] = usage();
  const std::vector<PromptScores> scores = job_->scores();
  std::string choices;
  for (size_t i = 0; i < choices_.size(); ++i)
    choices += (i == 0 ? "" : ",") + choice_text(i, scores.empty() ? nullptr : &scores[i / size_t(request_.n)]);
  return with_items(text_of(json), "choices", choices);
}

std::vector<OrderedJson> Answer::first_chunks() const {
  std::vector<OrderedJson> chunks;
  for (size_t i = 0; i < choices_.size(); ++i) {
    OrderedJson one{{"index", i}};
    if (request_.chat)
      one["delta"] = {{"role", "assistant"}, {"content", ""}};
    else if (request_.echo)
      one["text"] = echoed(i / size_t(request_.n));
    else
      continue;
    one["logprobs"] = nullptr;
    one["finish_reason"] = nullptr;
    chunks.push_back(head(true));
    chunks.back()["choices"].push_back(std::move(one));
    if (request_.include_usage) chunks.back()["usage"] = nullptr;
  }
  return chunks;
}

OrderedJson Answer::chunk(const TokenEvent& event) {
  // Nothing to send: the text follows with a later event. Without a tokenizer there is no text, and clients count the events.
  if (event.text.empty() && !event.finished && !event.log_probability && model_.tokenizer()) return nullptr;
  OrderedJson one{{"index", event.choice}};
  if (request_.chat)
    one["delta"] = event.text.empty() && event.finished ? OrderedJson::object() : OrderedJson{{"content", event.text}};
  else
    one["text"] = event.text;
  Choice& choice = choices_[event.choice];
  Choice piece;
  piece.streamed = choice.streamed;
  if (event.log_probability) piece.log_probabilities.push_back(*event.log_probability);
  one["logprobs"] = event.log_probability ? log_probabilities(piece, 0, nullptr) : OrderedJson();
  if (event.id >= 0) choice.streamed.add_token(model_.tokenizer(), event.id);
  one["finish_reason"] = finish_reason(event.finished);
  OrderedJson json = head(true);
  json["choices"].push_back(std::move(one));
  if (request_.include_usage) json["usage"] = nullptr;
  return json;
}

OrderedJson Answer::usage_chunk() const {
  OrderedJson json = head(true);
  json["usage"] = usage();
  return json;
}

}  // namespace weft::serve
