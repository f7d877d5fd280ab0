// Turns a request into a job for the scheduler, and the job's events into the JSON of the answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/serve/job.h"
#include "weft/serve/request.h"
#include "weft/serve/served_model.h"
#include "weft/serve/text_offsets.h"
#include "weft/serve/token_json.h"

namespace weft::serve {

class Answer {
 public:
  // Encodes the prompts and makes the job. Throws ApiError, or Error from the chat template or the tokenizer.
  Answer(GenerationRequest request, const ServedModel& model);

  const GenerationRequest& request() const { return request_; }
  const std::shared_ptr<Job>& job() const { return job_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }

  void add(const TokenEvent& event);
  bool finished() const { return open_ == 0; }

  std::string whole() const;  // the complete answer as JSON; only if finished()
  // The chunks of a streamed answer: those before the first token, one per event (null: nothing to send), and the last with the usage.
  std::vector<OrderedJson> first_chunks() const;
  OrderedJson chunk(const TokenEvent& event);
  OrderedJson usage_chunk() const;

 private:
  struct Choice {
    std::string text;
    std::vector<TokenLogProbability> log_probabilities;
    std::optional<FinishReason> finished;
    TextLength streamed;  // length of the text streamed so far
  };

  void add_sequences(Ids ids);
  void check_memory() const;
  OrderedJson head(bool chunk) const;
  OrderedJson usage() const;
  OrderedJson log_probabilities(const Choice& choice, size_t prompt, const PromptScores* scores) const;
  std::string choice_text(size_t index, const PromptScores* scores) const;
  std::string echoed(size_t prompt) const;

  GenerationRequest request_;
  const ServedModel& model_;
  std::string id_;
  int64_t created_;
  SamplingOptions sampling_;
  std::string adapter_;  // "": none
  std::shared_ptr<Job> job_;
  std::vector<std::shared_ptr<const Ids>> prompts_;  // ids of the prompts
  std::vector<Choice> choices_;
  size_t open_ = 0;  // choices that have not ended
  int64_t prompt_tokens_ = 0, new_tokens_ = 0;
};

// {"error": {"message", "type", "param", "code"}}
std::string error_json(const ApiError& error);
// Serialises JSON; bytes that are not UTF-8 become U+FFFD.
std::string text_of(const OrderedJson& json);

}  // namespace weft::serve
