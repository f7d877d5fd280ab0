// The pairs of `weft score`: prompts and completions in a file of JSON lines.
//
//   {"prompt": "2 + 2 =", "completion": " 4"}         texts, each tokenised on its own
//   {"prompt": [1, 2, 3], "completion": [4, 5]}       token ids
//   {"prompt_ids": [1, 2, 3], "ids": [4, 5], ...}     what `weft generate --json` prints; a line may be a list of such objects
//   {"messages": [..., {"role": "assistant", ...}]}   a conversation: its last message is the completion
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/chat_flags.h"
#include "weft/generate/score.h"
#include "weft/io/json.h"
#include "weft/models/folder.h"

namespace weft::cli {

class PairReader {
 public:
  // Both must outlive it. The tokenizer and the chat template are read when a line needs them.
  PairReader(const ModelFolder& folder, const ChatFlags& chat) : folder_(folder), chat_(chat) {}

  // Calls `visit` for each pair with its place, "pairs.jsonl:17". Throws bad_file with place and value for a line that is no pair.
  void read(const std::string& path, const std::function<void(ScoredPair, const std::string& where)>& visit);

 private:
  ScoredPair pair_of(const JsonNode& object);
  ScoredPair from_conversation(const JsonNode& object);
  std::vector<int32_t> ids_of(const JsonNode& value, bool prompt) const;

  const ModelFolder& folder_;
  const ChatFlags& chat_;
  std::optional<ChatFormat> format_;
};

}  // namespace weft::cli
