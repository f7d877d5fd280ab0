#include "weft/data/tokenise.h"

#include <exception>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/base/progress.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr size_t kTaskBytes = size_t(64) << 10;  // of text: long enough to hide the cost of a task
constexpr size_t kBatchBytes = size_t(4) << 20;  // of text in memory: 64 tasks, at most 16 MiB of ids

// The position of a piece in its document.
struct Place {
  Vocabulary::DocumentStart document;
  bool begins, ends;
};

// A document, or a part of one.
struct Piece {
  std::string text, where;
  Place place;
};

class Tokeniser {
 public:
  Tokeniser(const Vocabulary& vocabulary, int threads, TokenSink& sink, int64_t bytes)
      : vocabulary_(vocabulary), threads_(threads), sink_(sink), tell_(report_bytes("tokenising", size_t(bytes))) {}

  void add_document(std::string_view text, const std::string& where, bool conversation) {
    const Vocabulary::DocumentStart start{.first = first_, .separated = separated_, .conversation = conversation};
    size_t at = 0;
    do {
      const size_t bytes = length_of_piece(text.substr(at));
      add_piece(text.substr(at, bytes), at == 0 ? where : join(where, " from byte ", at), {start, at == 0, at + bytes >= text.size()});
      at += bytes;
    } while (at < text.size());
    first_ = false;
    separated_ = vocabulary_.ends_separated(text, conversation);
  }

  // Encodes the collected pieces in parallel and passes on their ids in order. Raises the first error in that order.
  void flush() {
    tell_(done_);
    parallel_for(int64_t(tasks_.size()), threads_, [&](int64_t i) { run(tasks_[size_t(i)]); });
    for (Task& task : tasks_) {
      if (task.error) std::rethrow_exception(task.error);
      pass_on(task);
    }
    tasks_.clear();
    held_ = 0;
    tell_(done_);
  }

 private:
  struct Task {
    std::vector<Piece> pieces;
    size_t bytes = 0;
    std::vector<int32_t> ids;
    std::vector<size_t> begins;  // documents, as positions in ids
    std::exception_ptr error;
  };

  void pass_on(const Task& task) {
    size_t at = 0;
    for (const size_t begin : task.begins) {
      sink_.add(std::span(task.ids).subspan(at, begin - at));
      sink_.begin_document();
      at = begin;
    }
    sink_.add(std::span(task.ids).subspan(at));
  }

  // kTaskBytes, or more if the text cannot be split there.
  size_t length_of_piece(std::string_view text) const {
    for (size_t most = kTaskBytes; most < text.size(); most *= 2)
      if (const size_t cut = vocabulary_.cut(text, most)) return cut;
    return text.size();
  }

  void add_piece(std::string_view text, std::string where, Place place) {
    done_ += int64_t(text.size());
    if (text.size() > kBatchBytes) return encode_alone(text, where, place);
    const size_t bytes = text.size() + sizeof(Piece);
    if (tasks_.empty() || tasks_.back().bytes + bytes > kTaskBytes) tasks_.emplace_back();
    tasks_.back().pieces.push_back({std::string(text), std::move(where), place});
    tasks_.back().bytes += bytes;
    held_ += bytes;
    if (held_ >= kBatchBytes) flush();
  }

  // Without a second copy of the text or of its ids.
  void encode_alone(std::string_view text, const std::string& where, Place place) {
    flush();
    Task beginning;
    if (place.begins) begin(place, where, beginning);
    pass_on(beginning);
    std::vector<int32_t> ids;
    encode(text, where, ids, place);
    sink_.add(ids);
    if (place.ends) sink_.add(after(place));
  }

  void encode(std::string_view text, const std::string& where, std::vector<int32_t>& ids, Place place) const {
    if (size_t wrong = first_invalid_utf8(text); wrong != text.size()) next_character(text, wrong, where);  // raises the error
    vocabulary_.encode(text, ids, where, /*rest=*/!place.begins);
  }

  std::span<const int32_t> after(const Place& place) const {
    return place.document.conversation ? std::span<const int32_t>() : vocabulary_.after();
  }

  void begin(const Place& place, const std::string& where, Task& task) const {
    vocabulary_.append_beginning(place.document, task.ids, where);
    task.begins.push_back(task.ids.size() - (place.document.conversation ? 0 : vocabulary_.before().size()));
  }

  void run(Task& task) const {
    try {
      for (const Piece& piece : task.pieces) {
        if (piece.place.begins) begin(piece.place, piece.where, task);
        encode(piece.text, piece.where, task.ids, piece.place);
        if (piece.place.ends) task.ids.insert(task.ids.end(), after(piece.place).begin(), after(piece.place).end());
      }
    } catch (...) {
      task.error = std::current_exception();
    }
  }

  const Vocabulary& vocabulary_;
  const int threads_;
  TokenSink& sink_;
  const std::function<void(int64_t)> tell_;  // reports the bytes of text that are done
  int64_t done_ = 0;
  std::vector<Task> tasks_;
  size_t held_ = 0;                        // bytes in tasks_
  bool first_ = true, separated_ = false;  // separated_: the document before ended with the separator
};

}  // namespace

void tokenise(const Documents& documents, const Vocabulary& vocabulary, int threads, TokenSink& sink) {
  Tokeniser tokeniser(vocabulary, threads, sink, documents.bytes());
  documents.visit([&](std::string_view text, const std::string& where) { tokeniser.add_document(text, where, false); },
                  [&](std::string_view text, const std::string& where) { tokeniser.add_document(text, where, true); });
  tokeniser.flush();
  report_progress({.what = "tokenising", .done = documents.bytes(), .total = documents.bytes(), .bytes = true});
}

}  // namespace weft
