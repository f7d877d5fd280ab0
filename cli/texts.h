// Texts that a command is given in a file.
#pragma once

#include <string>
#include <vector>

namespace weft::cli {

struct Text {
  std::string where;  // the file, and the line of a .jsonl file: what an error names
  std::string text;
};

// A text file is one text; each line of a .jsonl file is one, its "text". Throws naming the file, and the line.
std::vector<Text> read_texts(const std::string& path);

}  // namespace weft::cli
