// Arbitrary bytes as the body of each POST: either a request whose members are in range, or one ApiError of status 400.
#include "weft/serve/request.h"

#include "tests/fuzz/targets.h"
#include "weft/chat/conversation.h"
#include "weft/serve/token_json.h"
#include "weft/serve/answer.h"
#include "weft/serve/api_error.h"

namespace weft::fuzz {
namespace {

template <class Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const serve::ApiError& error) {
    require(error.status == 400 && !error.message.empty(), "an error of status " + std::to_string(error.status) + ": " + error.message);
    require(serve::OrderedJson::accept(serve::error_json(error)), "an error that is no JSON");
  } catch (const Error& error) {  // of a conversation
    require_file_error(error);
  }
}

void check_request(const serve::GenerationRequest& r) {
  const int64_t prompts = r.chat ? 1 : int64_t(r.prompts.size());
  require(prompts >= 1 && r.n >= 1 && prompts * r.n <= serve::kMostSequences, "a request of too many sequences");
  require(r.max_tokens.value_or(0) >= 0 && r.top_log_probabilities >= 0 && r.top_log_probabilities <= serve::kMostTop, "out of range");
  for (const auto& prompt : r.prompts)
    if (const auto* ids = std::get_if<serve::Ids>(&prompt))
      for (int32_t id : *ids) require(id >= 0, "a negative id");
  if (r.chat) Conversation::parse(r.conversation, "the request");
}

}  // namespace

void serve_request(std::string_view bytes) {
  read_or_refuse([&] { check_request(serve::parse_completion(bytes)); });
  read_or_refuse([&] { check_request(serve::parse_chat(bytes)); });
  read_or_refuse([&] {
    const auto request = serve::parse_tokenize(bytes);
    if (!request.text) Conversation::parse(request.conversation, "the request");
  });
}

}  // namespace weft::fuzz
