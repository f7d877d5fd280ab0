// Chat data as training sequences: each conversation is a document whose targets are the tokens of its answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/chat_cache.h"
#include "weft/data/dataset.h"
#include "weft/data/packing.h"
#include "weft/data/token_documents.h"

namespace weft {

struct ChatDataOptions {
  std::string path;                   // a file or a folder
  std::string cache_folder;           // of tokenised data
  int64_t tokens = 1024;              // per sequence: of a longer conversation the first ones are read
  double validation_fraction = 0.05;  // of the conversations, taken from the end
  uint64_t seed = 0;                  // of the order
  int64_t vocabulary_limit = 0;       // ids must be below it; 0: no limit
  int threads = 0;                    // that tokenise; 0: all that the process may use
  Packing packing = Packing::none;    // or documents
  bool full_rows = false;             // rows have `tokens` tokens: those of several datasets are then alike
};

// Conversations [first, last) of a cache, each cut to `most` ids. One without an answer in these ids is left out.
class ChatDocuments : public TokenDocuments {
 public:
  ChatDocuments(std::shared_ptr<const ChatCache> cache, int64_t first, int64_t last, int64_t most);

  int64_t size() const override { return int64_t(kept_.size()); }
  int64_t length(int64_t document) const override { return kept_[size_t(document)].length; }
  void read(int64_t document, int64_t begin, std::span<int32_t> ids, std::span<int32_t> targets) const override;

  int64_t shortened() const { return shortened_; }  // conversations
  int64_t left_out() const { return left_out_; }
  int64_t tokens() const { return tokens_; }    // of all documents
  int64_t counted() const { return counted_; }  // targets that count
  int64_t longest() const { return longest_; }
  // The ids before the first answer of a document.
  std::vector<int32_t> prompt(int64_t document) const;

 private:
  struct Kept {
    int64_t conversation, length;
  };
  std::shared_ptr<const ChatCache> cache_;
  std::vector<Kept> kept_;
  int64_t shortened_ = 0, left_out_ = 0, tokens_ = 0, counted_ = 0, longest_ = 0;
};

class ChatDataset : public Dataset {
 public:
  // The ids before the first answer of a held-out conversation, or of the first one if none is held out.
  virtual std::vector<int32_t> sample_prompt() const = 0;
};

// Rows have `tokens` tokens, or fewer if that is enough: without packing for the longest conversation, with packing for all. Throws if
// there is no conversation to train on.
std::unique_ptr<ChatDataset> chat_dataset(const ChatDataOptions& options, std::shared_ptr<const ChatEncoder> encoder,
                                          const std::function<void(const std::string&)>& notice = {});

}  // namespace weft
