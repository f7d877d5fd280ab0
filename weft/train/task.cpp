#include "weft/train/task.h"

#include <algorithm>
#include <set>

#include "weft/base/check.h"
#include "weft/chat/chat_example.h"
#include "weft/data/data_list.h"
#include "weft/data/token_cache.h"
#include "weft/train/conversations.h"

namespace weft {

void check_conversations(const TrainConfig& c) {
  for (const std::string& list : {c.data, c.validation_data})
    if (!list.empty())
      for (const DataItem& item : data_items(list))
        if (is_prepared_data(item.path))
          fail(ErrorCode::bad_file, item.path,
               "holds prepared ids, which do not tell answers from questions; --task sft takes the conversations themselves");
}

void read_conversations(const TrainConfig& c, int64_t sequence, TrainingProblem& problem, const Notice& notice) {
  problem.chat = std::make_shared<const ChatEncoder>(chat_format(c), problem.vocabulary, template_hash(c));
  if (notice && !problem.chat->end_of_turn().id)
    notice("the chat template ends an answer with no special token: the model may not learn where an answer ends");
  std::vector<const ChatDataset*> read;
  problem.data = read_lists(c, [&](const std::string& list, uint64_t seed, bool part) {
    auto data = chat_dataset({.path = list,
                              .cache_folder = c.cache.empty() ? default_cache_folder() : c.cache,
                              .tokens = sequence,
                              .validation_fraction = c.validation_data.empty() ? c.validation : 0,
                              .seed = seed,
                              .vocabulary_limit = is_folder(c.model) ? problem.model.vocab_size : 0,
                              .threads = int(c.threads),
                              .packing = packing_of(c),
                              .full_rows = part},
                             problem.chat, notice);
    read.push_back(data.get());
    return data;
  });
  const std::vector<DataItem> items = data_items(c.data);
  problem.conversations = c.validation_data.empty() ? read[0] : read[is_weighted(items) ? items.size() : 1];
}

std::vector<char32_t> characters_of_conversations(const TrainConfig& c) {
  const ChatFormat format = chat_format(c);
  std::set<char32_t> found = {U'\n'};
  Documents(unweighted_data(c)).visit_json({.document = [&](std::string_view json, const std::string& where) {
    const ChatExample example = parse_chat_example(json, where);
    const std::string text = [&] {
      try {
        return format.render(example.conversation, /*add_generation_prompt=*/true);
      } catch (const Error& error) {
        fail(error.code(), where, error.what());
      }
    }();
    for (size_t at = 0; at < text.size();) found.insert(next_character(text, at, where));
  }});
  return {found.begin(), found.end()};
}

void end_at_turns(TrainingProblem& problem) {
  const auto end = problem.chat->end_of_turn().id;
  if (!end) return;
  std::vector<int64_t>& ids = problem.model.eos_ids;
  std::erase(ids, int64_t(*end));
  ids.insert(ids.begin(), int64_t(*end));
}

std::vector<int32_t> conversation_prompt(const TrainConfig& config, const TrainingProblem& problem) {
  return config.prompt.empty() ? problem.conversations->sample_prompt() : problem.chat->prompt(config.prompt);
}

}  // namespace weft
