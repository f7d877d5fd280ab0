// The parts of the model that connection threads use: tokenizer, chat template and settings. Only the scheduler runs the model.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weft/chat/chat_format.h"
#include "weft/generate/sampler.h"
#include "weft/models/folder.h"
#include "weft/serve/request.h"

namespace weft::serve {

class ServedModel {
 public:
  // `folder` must outlive it. `positions`: maximum length of a sequence with its prompt. `private_paths`: paths that are removed from error
  // messages to clients. `adapters`: names of the model's adapters, which clients see as models.
  ServedModel(const ModelFolder& folder, std::string name, std::optional<ChatFormat> format, int64_t positions,
              std::vector<std::string> private_paths, std::vector<std::string> adapters = {});

  const std::string& name() const { return name_; }
  int64_t created() const { return created_; }  // seconds since 1970
  int64_t positions() const { return positions_; }
  const Tokenizer* tokenizer() const { return tokenizer_; }  // null: prompts are token ids, and answers have no text
  const std::vector<int32_t>& end_ids(bool chat) const { return chat ? chat_end_ids_ : end_ids_; }

  // The folder's settings, overridden by the request's. A request without a seed gets a random one.
  SamplingOptions sampling(const SamplingRequest& request) const;
  // The maximum number of new tokens of a sequence. Throws an ApiError if prompt and new tokens exceed positions().
  int64_t max_tokens(const GenerationRequest& request, size_t prompt_tokens) const;

  // The ids of a prompt. Throws an ApiError for `param` if it is empty, longer than the context or has an id outside the vocabulary.
  Ids encode(const Prompt& prompt, const char* param = "prompt") const;
  Ids encode_chat(const std::string& conversation, bool add_generation_prompt = true) const;
  const Tokenizer& need_tokenizer() const;

  const std::vector<std::string>& adapters() const { return adapters_; }
  // The adapter for a request's `model`; "" for the base model, which is also the default. Throws an ApiError for an unknown name.
  std::string adapter_of(const std::string& model) const;

  // The text of an error with the private paths removed.
  std::string public_text(std::string text) const;

 private:
  std::string name_;
  int64_t created_, positions_, vocabulary_;
  const Tokenizer* tokenizer_;
  SamplingOptions sampling_;
  std::optional<int64_t> max_new_tokens_;
  std::vector<int32_t> end_ids_, chat_end_ids_;
  std::optional<ChatFormat> format_;
  std::vector<std::string> private_paths_, adapters_;
  mutable std::mutex rendering_;
};

}  // namespace weft::serve
