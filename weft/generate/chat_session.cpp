#include "weft/generate/chat_session.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/generate/answer_start.h"

namespace weft {
namespace {

constexpr const char* kWhere = "chat";

bool is_system(const std::string& role) { return role == "system" || role == "developer"; }

Generator::TokenTexts texts_of_answer(const Tokenizer& tokenizer) {
  return [&tokenizer, start = AnswerStart(tokenizer)](int32_t id) mutable -> Generator::TokenText {
    return {std::string(start.bytes_of(id)), tokenizer.is_special(id)};
  };
}

// The pool has pages for one sequence, and one more: the last page shared with an earlier turn exists twice while it is copied.
EngineOptions engine_options(const Model& model) {
  return {.sequences = 1, .pool = model.config().max_positions + kPagePositions, .keep = true, .grows = true};
}

}  // namespace

std::vector<int32_t> end_of_turn_ids(const ModelFolder& folder, const ChatFormat& format) {
  std::vector<int32_t> ids = folder.end_ids();
  for (const auto& id : {folder.tokenizer().eos_id(), format.end_of_turn(folder.tokenizer()).id})
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  return ids;
}

ChatSession::ChatSession(const Model& model, const ModelFolder& folder, ChatFormat format)
    : model_(model),
      folder_(folder),
      format_(std::move(format)),
      end_ids_(end_of_turn_ids(folder, format_)),
      engine_(model, engine_options(model)) {}

void ChatSession::restart(Conversation conversation) {
  conversation_ = std::move(conversation);
  hidden_ = 0;
}

size_t ChatSession::system_messages() const {
  size_t count = 0;
  while (count < conversation_.size() && is_system(conversation_.role(count))) ++count;
  return count;
}

std::string ChatSession::system() const { return system_messages() ? conversation_.content(0) : ""; }

void ChatSession::set_system(std::string_view text) {
  conversation_.erase(0, system_messages());
  if (!text.empty()) conversation_.insert(0, "system", text);
}

Conversation ChatSession::rendered() const {
  Conversation visible = conversation_;
  const size_t first = system_messages();
  visible.erase(first, std::min(hidden_, visible.size() - first));
  return visible;
}

std::vector<int32_t> ChatSession::encode() const { return format_.encode(rendered(), folder_.tokenizer(), true).ids; }

bool ChatSession::drop_oldest_turn() {
  const size_t begin = system_messages() + hidden_;
  for (size_t next = begin + 1; next < conversation_.size(); ++next) {
    if (conversation_.role(next) != "user") continue;
    hidden_ += next - begin;
    return true;
  }
  return false;
}

// The ids of the conversation as it fits.
std::vector<int32_t> ChatSession::prompt(const GenerateOptions& options) {
  const int64_t context = model_.config().max_positions, quarter = std::max<int64_t>(1, context / 4);
  const int64_t room = options.max_tokens > 0 ? std::min(options.max_tokens, quarter) : quarter;
  std::vector<int32_t> ids = encode();
  check(!ids.empty(), kWhere, "the template renders the conversation to zero tokens");
  if (int64_t(ids.size()) + room <= context) return ids;
  while (int64_t(ids.size()) > context / 2 && drop_oldest_turn()) ids = encode();
  check(int64_t(ids.size()) < context, kWhere, "the message does not fit: with the template",
        system().empty() ? "" : " and the system message", " it has ", ids.size(), " tokens, and the model's context is ", context);
  return ids;
}

ChatTurn ChatSession::answer(GenerateOptions options, const std::function<void(const NewToken&)>& on_token) {
  check(conversation_.size() > 0, kWhere, "there is no message to answer");
  const size_t hidden = hidden_;
  try {
    const std::vector<int32_t> ids = prompt(options);
    ChatTurn turn;
    turn.prompt_tokens = int64_t(ids.size());
    turn.dropped = int64_t(hidden_ - hidden);
    options.max_tokens = std::min(options.max_tokens, model_.config().max_positions - turn.prompt_tokens);
    options.eos_ids.insert(options.eos_ids.end(), end_ids_.begin(), end_ids_.end());
    if (std::exchange(seed_, options.sampling.seed) != options.sampling.seed) occurrences_.clear();
    Generator generator(model_, options, texts_of_answer(folder_.tokenizer()));
    uint32_t& occurrence = occurrences_[prompt_key(ids)];
    const int64_t reused = engine_.reused_tokens();
    turn.completion = generator.run(engine_, ids, occurrence, on_token);
    ++occurrence;
    turn.reused = engine_.reused_tokens() - reused;
    turn.times = generator.times();
    // Bytes that turn out not to be UTF-8 were shown one by one; the message has them as the tokenizer decodes the whole.
    const bool whole = turn.completion.reason != FinishReason::stop;
    if (!turn.completion.ids.empty())
      conversation_.add("assistant", whole ? folder_.tokenizer().decode(turn.completion.ids, true) : turn.completion.text);
    return turn;
  } catch (...) {
    hidden_ = hidden;
    throw;
  }
}

}  // namespace weft
