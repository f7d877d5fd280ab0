// The documents behind --data, by the ends of the files' names:
//   .txt .text .md     the file is one document
//   .jsonl .ndjson     each line is one: an object with a field "text"
//   .json              each element of a list is one (an object with a field "text", or a string), or each object where
//                      objects follow each other; a .jsonl file that holds a list is read likewise
// A folder is all such files in it and below, in the order of their names; others, and hidden ones, are left out. A file
// with another name is read as text when it is named itself. Text is UTF-8; a byte order mark in front is not part of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// A document and what to call it in an error: "corpus.txt", "corpus.jsonl:17", "corpus.json[17]".
using DocumentVisitor = std::function<void(std::string_view text, const std::string& where)>;

class Documents {
 public:
  // Throws when there is nothing there, or nothing in it. `notice` (may be empty) is told which files of a folder are left
  // out, once for all of them.
  explicit Documents(const std::string& path, const std::function<void(const std::string&)>& notice = {});

  const std::vector<std::string>& files() const { return files_; }
  int64_t bytes() const { return bytes_; }  // of all files

  // Every document in order, one in memory at a time. Throws bad_file with the file, and the line or element of a JSON
  // file, for what cannot be read.
  void visit(const DocumentVisitor& visitor) const;

  // Tells contents apart; what the files are called does not matter.
  uint64_t content_hash() const;

 private:
  std::vector<std::string> files_;
  int64_t bytes_ = 0;
};

}  // namespace weft
