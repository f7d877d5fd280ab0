#include "weft/data/passage_readers.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/data/text_window.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

class Reader : public PassageReader {
 public:
  Reader(std::unique_ptr<TextWindow> window, const std::string& path, const StreamPosition& from)
      : window_(std::move(window)), path_(path), count_(from.count) {
    window_->skip(from.offset - window_->offset());
  }
  StreamPosition position() const override { return {.offset = window_->offset(), .count = count_}; }

 protected:
  std::string_view view() const { return window_->view(); }
  [[noreturn]] void too_long(const std::string& where, const char* what) const {
    fail(ErrorCode::bad_file, where, "has ", what, " of more than ", kLongestText >> 20, " MiB, the limit for one");
  }
  void take(size_t bytes, Passage& passage) {
    passage.text.assign(view().substr(0, bytes));
    window_->drop(bytes);
  }

  const std::unique_ptr<TextWindow> window_;
  const std::string path_;
  int64_t count_;  // lines or elements before the window
};

// The file is one document, in passages of about 64 KiB.
class TextReader : public Reader {
 public:
  TextReader(std::unique_ptr<TextWindow> window, const std::string& path, const StreamPosition& from, bool known, Cut cut)
      : Reader(std::move(window), path, from), first_(from.offset == 0), known_(known), cut_(std::move(cut)) {}

  bool next(Passage& passage) override {
    const size_t bytes = length();
    if (bytes == 0) return false;
    if (const size_t wrong = known_ ? bytes : first_invalid_utf8(view().substr(0, bytes)); wrong != bytes)
      fail(ErrorCode::bad_file, path_, "is not UTF-8 at byte ", window_->offset() + int64_t(wrong), "; expected ", kKnownKinds,
           " or text under another name");
    const int64_t at = window_->offset();
    take(bytes, passage);
    window_->fill(1);
    passage.where = first_ ? path_ : join(path_, " from byte ", at);
    passage.json = false;
    passage.begins = std::exchange(first_, false);
    passage.ends = view().empty();
    return true;
  }

 private:
  static constexpr size_t kPassage = size_t(64) << 10;  // long enough to hide the cost of a task
  static constexpr size_t kAround = size_t(4) << 10;    // text after a place that its choice may depend on: longer than any added token

  size_t length() {
    if (!cut_) {
      while (!window_->ended()) window_->fill(std::max<size_t>(1, 2 * view().size()));
      return view().size();
    }
    for (size_t most = kPassage;; most *= 2) {
      window_->fill(most + kAround);
      if (view().size() <= most) return view().size();
      if (const size_t place = cut_(view().substr(0, most + kAround), most)) return place;
      if (most >= kLongestText)
        fail(ErrorCode::bad_file, path_, "has no place where the tokenizer could split it within the ", kLongestText >> 20,
             " MiB from byte ", window_->offset(), "; write its documents as lines of a .jsonl file");
    }
  }

  bool first_;
  const bool known_;
  const Cut cut_;
};

class LinesReader : public Reader {
 public:
  using Reader::Reader;

  bool next(Passage& passage) override {
    while (window_->fill(1), !view().empty()) {
      const size_t end = line_end();
      const bool blank = view().find_first_not_of(" \t\r\n") >= end;
      ++count_;
      if (blank) {
        drop_line(end);
        continue;
      }
      passage.text.assign(view().substr(0, end));
      drop_line(end);
      passage.where = join(path_, ":", count_);
      passage.json = passage.begins = passage.ends = true;
      passage.form = {"column", false};
      return true;
    }
    return false;
  }

 private:
  size_t line_end() {
    for (size_t scanned = 0;;) {
      const size_t end = view().find('\n', scanned);
      if (end != std::string_view::npos) return end;
      if (window_->ended()) return view().size();
      scanned = view().size();
      if (scanned > kLongestText) too_long(join(path_, ":", count_ + 1), "a line");
      window_->fill(scanned + 1);
    }
  }
  void drop_line(size_t end) { window_->drop(std::min(end + 1, view().size())); }
};

// Reads JSON values one by one.
class ValuesReader : public Reader {
 public:
  using Reader::Reader;

 protected:
  void take_value(const std::string& where, bool string_allowed, Passage& passage) {
    ValueEnd end;
    for (size_t seen = 0; !end.find(view().substr(seen)) && !window_->ended();) {
      seen = view().size();
      if (seen > kLongestText) too_long(where, "a JSON value");
      window_->fill(seen + 1);
    }
    take(end.position(), passage);
    passage.where = where;
    passage.json = passage.begins = passage.ends = true;
    passage.form = {"byte", string_allowed};
  }
};

// "[value, value]"; elements are named by their index. The position is that after an element.
class ListReader : public ValuesReader {
 public:
  using ValuesReader::ValuesReader;

  bool next(Passage& passage) override {
    if (count_ == 0) {
      window_->skip_space();
      window_->drop(1);  // '['
      if (!window_->skip_space()) not_closed();
      if (view()[0] == ']') return end();
    } else {
      if (!window_->skip_space()) not_closed();
      if (view()[0] == ']') return end();
      if (view()[0] != ',')
        fail(ErrorCode::bad_file, path_, "is not valid JSON: element ", count_ - 1, " of its list is followed by ",
             shown_character(view()[0]));
      window_->drop(1);
      if (!window_->skip_space()) not_closed();
    }
    take_value(join(path_, "[", count_, "]"), true, passage);
    ++count_;
    return true;
  }

 private:
  [[noreturn]] void not_closed() const { fail(ErrorCode::bad_file, path_, "is not valid JSON: its list is not closed"); }
  bool end() {
    window_->drop(1);
    if (window_->skip_space()) fail(ErrorCode::bad_file, path_, "is not valid JSON: its list is followed by ", shown_character(view()[0]));
    return false;
  }
};

// Objects are named by the lines that they begin in.
class ObjectsReader : public ValuesReader {
 public:
  using ValuesReader::ValuesReader;

  bool next(Passage& passage) override {
    if (!skip_lines()) return false;
    const std::string where = join(path_, ":", count_ + 1);
    if (view()[0] != '{')
      fail(ErrorCode::bad_file, where, "has ", shown_character(view()[0]), ", expected a list of texts, or objects with a text");
    take_value(where, false, passage);
    count_ += std::count(passage.text.begin(), passage.text.end(), '\n');
    return true;
  }

 private:
  bool skip_lines() {
    for (;;) {
      window_->fill(1);
      const size_t space = std::min(view().find_first_not_of(" \t\r\n"), view().size());
      count_ += std::count(view().begin(), view().begin() + ptrdiff_t(space), '\n');
      const bool found = space < view().size();
      window_->drop(space);
      if (found || (window_->ended() && view().empty())) return found;
    }
  }
};

bool holds_list(TextWindow& window) {
  constexpr size_t kPeeked = size_t(64) << 10;
  window.fill(kPeeked);
  const size_t first = window.view().find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && window.view()[first] == '[';
}

}  // namespace

std::unique_ptr<PassageReader> passage_reader(ByteStream& stream, Kind kind, const Cut& cut, const StreamPosition& from) {
  auto window = std::make_unique<TextWindow>(stream);
  window->fill(kMark.size());
  if (window->view().starts_with(kMark)) window->drop(kMark.size());
  const std::string& path = stream.path();
  if (kind == Kind::text || kind == Kind::unknown)
    return std::make_unique<TextReader>(std::move(window), path, from, kind == Kind::text, cut);
  if (holds_list(*window)) return std::make_unique<ListReader>(std::move(window), path, from);
  if (kind == Kind::json) return std::make_unique<ObjectsReader>(std::move(window), path, from);
  return std::make_unique<LinesReader>(std::move(window), path, from);
}

}  // namespace weft
