#include "cli/score_pairs.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/io/mapped_file.h"

namespace weft::cli {
namespace {

constexpr JsonLimits kLine{.bytes = size_t(64) << 20};

}  // namespace

// A text or a list of ids.
std::vector<int32_t> PairReader::ids_of(const JsonNode& value, bool prompt) const {
  std::vector<int32_t> ids;
  if (value.value().is_array()) {
    const int64_t last = folder_.config().vocab_size - 1;
    for (const JsonNode& id : value.elements()) ids.push_back(int32_t(id.integer(0, last)));
  } else {
    if (!value.value().is_string()) value.refuse("is ", shown_value(value.value()), ", expected a text or a list of token ids");
    if (!folder_.has_tokenizer()) value.refuse("is a text and ", folder_.lack_of_tokenizer(), "; pass lists of token ids");
    const std::string text = value.text();
    ids = prompt ? folder_.tokenizer().encode_prompt(text) : folder_.tokenizer().encode(text, /*add_special=*/false);
  }
  if (prompt && ids.empty()) value.refuse("has zero tokens, expected at least one");
  return ids;
}

ScoredPair PairReader::from_conversation(const JsonNode& object) {
  if (!format_) format_ = chat_.format(folder_.tokenizer_folder());
  Conversation conversation = Conversation::parse(object.value().dump(), object.file());
  chat_.set_variables(conversation);
  const size_t n = conversation.size();
  if (n < 2 || conversation.role(n - 1) != "assistant") object.at("messages").refuse("must end with a message of the assistant");
  const std::vector<int32_t> whole = format_->encode(conversation, folder_.tokenizer(), false).ids;
  conversation.pop_back();
  ScoredPair pair{format_->encode(conversation, folder_.tokenizer(), true).ids, {}};
  if (pair.prompt.empty() || pair.prompt.size() > whole.size() ||
      !std::ranges::equal(pair.prompt, std::span(whole).first(pair.prompt.size())))
    object.at("messages").refuse("cannot be scored: the template renders the messages before the answer differently without it");
  pair.completion.assign(whole.begin() + int64_t(pair.prompt.size()), whole.end());
  return pair;
}

ScoredPair PairReader::pair_of(const JsonNode& object) {
  object.object();
  if (object.find("messages")) return from_conversation(object);
  if (object.find("prompt_ids")) return {ids_of(object.at("prompt_ids").list(), true), ids_of(object.at("ids").list(), false)};
  return {ids_of(object.at("prompt"), true), ids_of(object.at("completion"), false)};
}

void PairReader::read(const std::string& path, const std::function<void(ScoredPair, const std::string&)>& visit) {
  const MappedFile file(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);  // a byte order mark
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = join(path, ":", number);
    const Json json = parse_json(where, line, kLine);
    const JsonNode root(where, json);
    if (!json.is_array()) visit(pair_of(root), where);
    if (json.is_array())
      for (const JsonNode& element : root.elements()) visit(pair_of(element), where);
  }
}

}  // namespace weft::cli
