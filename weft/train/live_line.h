// The last line of a terminal, redrawn in place. If the output is not a terminal, nothing is drawn and print() writes plain lines.
#pragma once

#include <cstdio>
#include <string>

namespace weft {

class LiveLine {
 public:
  explicit LiveLine(std::FILE* out);  // null: nothing is shown
  ~LiveLine() { finish(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool terminal() const { return terminal_; }
  int columns() const;  // of the terminal; 80 if unknown

  void draw(const std::string& text);   // sets the line
  void cover(const std::string& text);  // shows another text in its place until uncover()
  void uncover();
  void print(const std::string& text);  // prints a permanent line above it
  void finish();                        // leaves the line on the screen; later output starts below it

 private:
  void show(const std::string& text);

  std::FILE* out_;
  const bool terminal_;
  bool covered_ = false;
  std::string text_;  // the last argument of draw(); empty: no line
};

std::string bar(double done, int width);  // "[███░░░]"

}  // namespace weft
