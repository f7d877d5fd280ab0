#include "weft/data/tokenise.h"

#include <exception>
#include <mutex>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/base/progress.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr size_t kTaskBytes = size_t(64) << 10;  // of text: long enough to hide the cost of a task
constexpr size_t kLongJson = size_t(256) << 10;  // longer values are parsed by the reading thread and split

// A passage, or a part of a long document.
struct Piece {
  Passage passage;
  bool conversation = false;
  bool separated = false;  // of a piece that ends a document: what follows needs no separator
};

// The beginning or the end of a document, before ids[at] of its task.
struct Edge {
  size_t at;
  bool begins, conversation, separated;
  std::string where;
};

struct Task {
  std::vector<Piece> pieces;
  size_t bytes = 0;
  std::vector<int32_t> ids;
  std::vector<Edge> edges;
  std::exception_ptr error;
};

class Tokeniser {
 public:
  Tokeniser(const Documents& documents, const Vocabulary& vocabulary, const TokeniseOptions& options, TokenSink& sink,
            const TokeniserState& from)
      : documents_(documents),
        vocabulary_(vocabulary),
        options_(options),
        sink_(sink),
        state_(from),
        cut_([&vocabulary](std::string_view text, size_t most) { return vocabulary.cut(text, most); }),
        stream_(documents.listed(), cut_, from.position),
        tell_(report_bytes("tokenising", size_t(documents.bytes()))) {
    stream_.on_end = [this](int64_t file, uint64_t hash) { sink_.end_file(file, hash); };
  }

  void run() {
    for (Passage passage; next(passage);) {
      add(std::move(passage));
      if (held_ >= options_.batch_bytes) flush();
    }
    flush();
    tell_(documents_.bytes());
  }

 private:
  // An error of reading comes after those of the documents before it.
  bool next(Passage& passage) {
    try {
      return stream_.next(passage);
    } catch (const Error&) {
      encode_held();
      throw;
    }
  }

  void add(Passage&& passage) {
    if (passage.json && passage.text.size() > kLongJson) return add_parts(passage);
    add_piece({std::move(passage)});
  }

  // Parsed here, and split for several threads.
  void add_parts(const Passage& passage) {
    Passage document = passage;
    const bool conversation = read_json(document);
    const bool separated = vocabulary_.ends_separated(document.text, conversation);
    const std::string_view text = document.text;
    size_t at = 0;
    do {
      const size_t bytes = length_of_piece(text.substr(at));
      const bool ends = at + bytes >= text.size();
      Passage part{std::string(text.substr(at, bytes)),
                   at == 0 ? document.where : join(document.where, " from byte ", at),
                   false,
                   {},
                   at == 0,
                   ends};
      add_piece({std::move(part), conversation, separated});
      at += bytes;
    } while (at < text.size());
  }

  size_t length_of_piece(std::string_view text) const {
    for (size_t most = kTaskBytes; most < text.size(); most *= 2)
      if (const size_t cut = vocabulary_.cut(text, most)) return cut;
    return text.size();
  }

  void add_piece(Piece piece) {
    const size_t bytes = piece.passage.text.size() + sizeof(Piece);
    if (tasks_.empty() || tasks_.back().bytes + bytes > kTaskBytes) tasks_.emplace_back();
    tasks_.back().pieces.push_back(std::move(piece));
    tasks_.back().bytes += bytes;
    held_ += bytes;
  }

  void flush() {
    tell_(stream_.raw_bytes());
    encode_held();
    state_.position = stream_.position();
    sink_.pass(state_);
    tell_(stream_.raw_bytes());
  }

  // Encodes the collected pieces in parallel and passes on their ids in order. Raises the first error in that order.
  void encode_held() {
    parallel_for(int64_t(tasks_.size()), options_.threads, [&](int64_t i) { encode(tasks_[size_t(i)]); });
    for (const Task& task : tasks_) {
      if (task.error) std::rethrow_exception(task.error);
      pass_on(task);
    }
    tasks_.clear();
    held_ = 0;
  }

  void pass_on(const Task& task) {
    size_t done = 0;
    for (const Edge& edge : task.edges) {
      sink_.add(std::span(task.ids).subspan(done, edge.at - done));
      done = edge.at;
      edge.begins ? begin_document(edge) : void(state_.separated = edge.separated);
    }
    sink_.add(std::span(task.ids).subspan(done));
  }

  void begin_document(const Edge& edge) {
    beginning_.clear();
    vocabulary_.append_beginning({.first = state_.first, .separated = state_.separated, .conversation = edge.conversation}, beginning_,
                                 edge.where);
    const size_t separators = beginning_.size() - (edge.conversation ? 0 : vocabulary_.before().size());
    sink_.add(std::span(beginning_).first(separators));
    sink_.begin_document();
    sink_.add(std::span(beginning_).subspan(separators));
    state_.first = false;
    state_.conversations |= edge.conversation;
  }

  void encode(Task& task) const {
    try {
      for (Piece& piece : task.pieces) encode(piece, task);
    } catch (...) {
      task.error = std::current_exception();
    }
    task.pieces.clear();
  }

  void encode(Piece& piece, Task& task) const {
    Passage& passage = piece.passage;
    if (passage.json) {
      piece.conversation = read_json(passage);
      piece.separated = vocabulary_.ends_separated(passage.text, piece.conversation);
    } else if (!piece.conversation) {
      piece.separated = vocabulary_.ends_separated("", false);
    }
    if (passage.begins) task.edges.push_back({task.ids.size(), true, piece.conversation, false, passage.where});
    if (size_t wrong = first_invalid_utf8(passage.text); wrong != passage.text.size())
      next_character(passage.text, wrong, passage.where);  // raises the error
    vocabulary_.encode(passage.text, task.ids, passage.where, /*rest=*/!passage.begins);
    if (!passage.ends) return;
    if (!piece.conversation) task.ids.insert(task.ids.end(), vocabulary_.after().begin(), vocabulary_.after().end());
    task.edges.push_back({task.ids.size(), false, piece.conversation, piece.separated, {}});
  }

  // Replaces the JSON by its text; true for a conversation.
  bool read_json(Passage& passage) const {
    JsonDocument document = json_document(passage.text, passage.where, passage.form, documents_.field());
    if (!document.conversation) {
      passage.text = std::move(document.text);
      return false;
    }
    const std::lock_guard lock(rendering_);
    passage.text = documents_.render(document.text, passage.where);
    return true;
  }

  const Documents& documents_;
  const Vocabulary& vocabulary_;
  const TokeniseOptions options_;
  TokenSink& sink_;
  TokeniserState state_;
  const Cut cut_;
  DocumentStream stream_;
  const std::function<void(int64_t)> tell_;  // reports the bytes of the files that are read
  mutable std::mutex rendering_;             // a template is read when the first conversation is found
  std::vector<Task> tasks_;
  std::vector<int32_t> beginning_;
  size_t held_ = 0;  // bytes in tasks_
};

}  // namespace

void tokenise(const Documents& documents, const Vocabulary& vocabulary, const TokeniseOptions& options, TokenSink& sink,
              const TokeniserState& from) {
  Tokeniser(documents, vocabulary, options, sink, from).run();
}

}  // namespace weft
