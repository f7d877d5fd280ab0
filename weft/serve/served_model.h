// The model as threads of connections see it: its tokenizer, template and settings. The model itself belongs to the scheduler.
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
  // `folder` must outlive it. `positions`: the longest sequence, its prompt included. `private_paths`: paths of the folder and of other
  // files, hidden from clients in errors. `adapters`: the names of the model's adapters, each a model for clients.
  ServedModel(const ModelFolder& folder, std::string name, std::optional<ChatFormat> format, int64_t positions,
              std::vector<std::string> private_paths, std::vector<std::string> adapters = {});

  const std::string& name() const { return name_; }
  int64_t created() const { return created_; }  // seconds since 1970
  int64_t positions() const { return positions_; }
  int64_t vocabulary() const { return vocabulary_; }
  const Tokenizer* tokenizer() const { return tokenizer_; }  // null: prompts are token ids, and answers have no text
  const std::vector<int32_t>& end_ids(bool chat) const { return chat ? chat_end_ids_ : end_ids_; }

  // The folder's settings, overridden by those of the request. A request without a seed gets a random one.
  SamplingOptions sampling(const SamplingRequest& request) const;
  // The number of new tokens of a sequence. Throws an ApiError if they do not fit behind the prompt.
  int64_t max_tokens(const GenerationRequest& request, size_t prompt_tokens) const;

  // The ids of a prompt, checked: at least one, each in the vocabulary, shorter than the context.
  Ids encode(const Prompt& prompt) const;
  Ids encode_chat(const std::string& conversation, bool add_generation_prompt = true) const;
  const Tokenizer& need_tokenizer() const;

  const std::vector<std::string>& adapters() const { return adapters_; }
  // The adapter that a request's `model` names; "": the model itself, also if none is named. Throws an ApiError for any other name.
  std::string adapter_of(const std::string& model) const;

  // An error's text with the private paths removed.
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
