#include "cli/line_editor.h"

#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>

#ifdef WEFT_HAS_LIBEDIT
#include <histedit.h>
#include <langinfo.h>

#include <cstring>
#endif

#include "cli/interrupt.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::cli {

#ifdef WEFT_HAS_LIBEDIT
const bool LineEditor::kEdits = true;

namespace {

constexpr wchar_t kCtrlC = 3;

// Line editing needs a locale whose characters are UTF-8.
void use_utf8() {
  const auto is_utf8 = [] { return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0; };
  if (std::setlocale(LC_CTYPE, "") && is_utf8()) return;
  for (const char* name : {"C.UTF-8", "en_US.UTF-8", "UTF-8"})
    if (std::setlocale(LC_CTYPE, name) && is_utf8()) return;
}

// One byte of standard input: 1, 0 at its end, -1 after Ctrl-C.
int read_byte(EditLine* editor, char& byte) {
  for (;;) {
    if (wait_for_input()) {
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      return count > 0;
    }
    if (interrupted().exchange(false)) return -1;
    if (take_redraw()) {
      el_set(editor, EL_PREP_TERM, 1);  // a shell may have changed the terminal's mode while the process was stopped
      el_resize(editor);
      el_set(editor, EL_REFRESH);
    }
  }
}

// libedit's source of characters; invalid UTF-8 becomes U+FFFD.
int read_character(EditLine* editor, wchar_t* character) {
  std::string bytes;
  for (char byte = 0;;) {
    const int count = read_byte(editor, byte);
    if (count < 0) return *character = kCtrlC, 1;
    if (count == 0) return 0;
    bytes += byte;
    const Utf8Step step = utf8_step(bytes);
    if (step.cut) continue;
    *character = step.valid ? wchar_t(step.code) : wchar_t(0xfffd);
    return 1;
  }
}

std::string to_utf8(const wchar_t* text, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) append_utf8(out, char32_t(text[i]));
  return out;
}

std::wstring to_wide(const std::string& text) {
  std::wstring out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(std::string_view(text).substr(at));
    out += wchar_t(step.valid ? step.code : 0xfffd);
    at += step.length;
  }
  return out;
}

}  // namespace

struct LineEditor::Terminal {
  EditLine* editor = nullptr;
  HistoryW* history = nullptr;
  std::string file;
  std::wstring prompt;
  bool cleared = false;  // by Ctrl-C

  explicit Terminal(std::string history_file) : file(std::move(history_file)) {
    use_utf8();
    editor = el_init("weft", stdin, stdout, stderr);
    history = history_winit();
    HistEventW event;
    history_w(history, &event, H_SETSIZE, kHistoryLines);
    history_w(history, &event, H_SETUNIQUE, 1);
    if (!file.empty()) history_w(history, &event, H_LOAD, file.c_str());
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_EDITOR, "emacs");
    el_wset(editor, EL_HIST, history_w, history);
    el_wset(editor, EL_GETCFN, read_character);
    el_wset(editor, EL_PROMPT_ESC, prompt_of, L'\1');
    el_wset(editor, EL_ADDFN, L"weft-clear", L"Clear the line", clear);
    bind_keys();
    el_source(editor, nullptr);  // the user's ~/.editrc
  }
  ~Terminal() {
    history_wend(history);
    el_end(editor);
  }

  void bind_keys() {
    const std::pair<const wchar_t*, const wchar_t*> keys[] = {
        {L"^C", L"weft-clear"},         {L"^W", L"ed-delete-prev-word"},     {L"^U", L"vi-kill-line-prev"},
        {L"^K", L"ed-kill-line"},       {L"^A", L"ed-move-to-beg"},          {L"^E", L"ed-move-to-end"},
        {L"^R", L"em-inc-search-prev"}, {L"\\e[3~", L"ed-delete-next-char"}, {L"\\e[H", L"ed-move-to-beg"},
        {L"\\e[F", L"ed-move-to-end"},  {L"\\e[1~", L"ed-move-to-beg"},      {L"\\e[4~", L"ed-move-to-end"},
        {L"\\eOH", L"ed-move-to-beg"},  {L"\\eOF", L"ed-move-to-end"},       {L"\\e[1;5C", L"em-next-word"},
        {L"\\e[1;5D", L"ed-prev-word"}, {L"\\e[A", L"ed-prev-history"},      {L"\\e[B", L"ed-next-history"},
        {L"\\e[C", L"ed-next-char"},    {L"\\e[D", L"ed-prev-char"}};
    for (const auto& [key, function] : keys) el_wset(editor, EL_BIND, key, function, nullptr);
  }

  static Terminal& of(EditLine* editor) {
    Terminal* terminal = nullptr;
    el_get(editor, EL_CLIENTDATA, &terminal);
    return *terminal;
  }
  static wchar_t* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }
  static unsigned char clear(EditLine* editor, wint_t) {
    of(editor).cleared = true;
    std::fputs("\n", stdout);
    return CC_NEWLINE;
  }

  void remember(const std::wstring& line) {
    HistEventW event;
    history_w(history, &event, H_ENTER, line.c_str());
    if (!file.empty()) history_w(history, &event, H_SAVE, file.c_str());  // readable by its owner alone
  }

  Outcome read(const std::string& text, bool colour, std::string& line) {
    prompt = to_wide(colour ? "\1\x1b[1m\1" + text.substr(0, 1) + "\1\x1b[0m\1" + text.substr(1) : text);  // libedit drops a last escape
    cleared = false;
    el_set(editor, EL_PREP_TERM, 1);  // before the prompt is shown: keys typed at once are edited too
    int count = 0;
    const wchar_t* typed = el_wgets(editor, &count);
    if (cleared) return Outcome::interrupted;
    if (!typed || count <= 0) return Outcome::end;
    std::wstring wide(typed, size_t(count));
    while (!wide.empty() && (wide.back() == L'\n' || wide.back() == L'\r')) wide.pop_back();
    line = to_utf8(wide.data(), wide.size());
    if (wide.find_first_not_of(L" \t") != wide.npos) remember(wide);
    return Outcome::line;
  }
};

LineEditor::LineEditor(bool edits, std::string history, bool colour) : prompts_(edits), colour_(colour) {
  if (edits) terminal_ = std::make_unique<Terminal>(std::move(history));
}
#else
const bool LineEditor::kEdits = false;

struct LineEditor::Terminal {
  Outcome read(const std::string&, bool, std::string&) { return Outcome::end; }
};
LineEditor::LineEditor(bool edits, std::string, bool colour) : prompts_(edits), colour_(colour) {}
#endif

LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::read(const std::string& prompt, std::string& line) {
  std::fflush(stdout);
  return terminal_ ? terminal_->read(prompt, colour_, line) : read_plain(prompt, line);
}

LineEditor::Outcome LineEditor::read_plain(const std::string& prompt, std::string& line) {
  if (prompts_) {
    std::fputs(prompt.c_str(), stdout);
    std::fflush(stdout);
  }
  for (size_t searched = 0;;) {
    if (const size_t end = buffer_.find('\n', searched); end != buffer_.npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Outcome::line;
    }
    if (ended_) {
      if (buffer_.empty()) return Outcome::end;
      line = std::move(buffer_);
      buffer_.clear();
      return Outcome::line;
    }
    if (!wait_for_input()) {
      if (!interrupted().exchange(false)) continue;
      buffer_.clear();
      std::fputs("\n", stdout);
      return Outcome::interrupted;
    }
    searched = buffer_.size();
    char bytes[1 << 16];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count > 0) buffer_.append(bytes, size_t(count));
    if (count == 0 || (count < 0 && errno != EINTR)) ended_ = true;
  }
}

std::string history_file() {
  namespace fs = std::filesystem;
  const auto set = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  fs::path folder = set("XDG_STATE_HOME");
  if (folder.empty() && set("HOME").empty()) return "";
  if (folder.empty()) folder = fs::path(set("HOME")) / ".local/state";
  std::error_code error;
  fs::create_directories(folder / "weft", error);
  return error ? "" : (folder / "weft/chat_history").string();
}

}  // namespace weft::cli
