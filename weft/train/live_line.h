// The last line of a terminal, redrawn in place. Where the output is no terminal nothing is drawn, and lines that stay are plain.
#pragma once

#include <cstdio>
#include <string>

namespace weft {

class LiveLine {
 public:
  explicit LiveLine(std::FILE* out);
  ~LiveLine() { finish(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool terminal() const { return terminal_; }
  int columns() const;  // of the terminal; 80 where it does not say

  void draw(const std::string& text);   // the line from now on
  void cover(const std::string& text);  // shown in its place until uncover()
  void uncover();
  void print(const std::string& text);  // a line that stays, in place of the live one
  void finish();                        // the live line stays as it is, and the next output begins below it

 private:
  void show(const std::string& text);

  std::FILE* out_;
  const bool terminal_;
  bool covered_ = false;
  std::string text_;  // what draw() was last given; empty: there is no line
};

std::string bar(double done, int width);  // "[███░░░]"

}  // namespace weft
