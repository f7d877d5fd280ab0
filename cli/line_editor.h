// Lines typed by a user. On a terminal they can be edited and earlier ones recalled (libedit, if the build has it); otherwise they are read
// as they come, without prompt.
#pragma once

#include <memory>
#include <string>

namespace weft::cli {

class LineEditor {
 public:
  enum class Outcome { line, interrupted, end };  // interrupted: Ctrl-C cleared the line

  // `edits`: standard input and output are a terminal. `history`: a file that keeps the lines, at most kHistoryLines of them; empty: they
  // are forgotten at the end. `colour`: the prompt is shown in bold.
  LineEditor(bool edits, std::string history, bool colour);
  ~LineEditor();

  // Reads the next line into `line`, without its end.
  Outcome read(const std::string& prompt, std::string& line);

  static constexpr int kHistoryLines = 1000;
  static const bool kEdits;  // the build has libedit

 private:
  struct Terminal;  // libedit's state
  Outcome read_plain(const std::string& prompt, std::string& line);

  std::unique_ptr<Terminal> terminal_;  // null: plain lines
  bool prompts_, colour_;
  std::string buffer_;  // bytes read after the last line
  bool ended_ = false;
};

// $XDG_STATE_HOME/weft/chat_history, or ~/.local/state/weft/chat_history; "" without a home. Makes the folder.
std::string history_file();

}  // namespace weft::cli
