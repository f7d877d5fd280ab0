// The documents behind --data: a UTF-8 text file is one, each line of a JSONL file is one (its `text`), a folder is all
// files in it, in the order of their names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// A document and what to call it in an error: "corpus.txt", "corpus.jsonl:17".
using DocumentVisitor = std::function<void(std::string_view text, const std::string& where)>;

class Documents {
 public:
  // Throws when there is nothing there, or nothing in it.
  explicit Documents(const std::string& path);

  const std::vector<std::string>& files() const { return files_; }

  // Every document in order. Throws bad_file with the file, and the line of a JSONL file, for what cannot be read.
  void visit(const DocumentVisitor& visitor) const;

  // Tells contents apart; what the files are called does not matter.
  uint64_t content_hash() const;

 private:
  std::vector<std::string> files_;
};

}  // namespace weft
