// The documents behind --data. The extension of a file decides how it is read:
//   .txt .text .md     the file is one document
//   .jsonl .ndjson     each line is a document: an object with a field "text"
//   .json              each element of a list is a document (an object with a field "text", or a string), or each of several
//                      objects in a row; a .jsonl file that holds a list is read the same way
// An object without "text" may be a conversation, with a field "messages", which a chat template renders as text.
// A folder stands for all such files in it and its subfolders, in the order of their names; other and hidden files are skipped. A
// file with another extension is read as text if --data names it. Text is UTF-8; a leading byte order mark is skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// A document and what to call it in an error: "corpus.txt", "corpus.jsonl:17", "corpus.json[17]".
using DocumentVisitor = std::function<void(std::string_view text, const std::string& where)>;

// Renders a conversation, given as the JSON of its object.
struct ConversationReader {
  std::function<std::string(std::string_view json, const std::string& where)> render = {};  // empty: conversations are refused
  uint64_t identity = 0;                                                                    // another one for another template
};

class Documents {
 public:
  // Throws when the path does not exist or holds no data. Calls `notice` (may be empty) once with the names of skipped files.
  explicit Documents(const std::string& path, const std::function<void(const std::string&)>& notice = {}, ConversationReader reader = {});

  const std::vector<std::string>& files() const { return files_; }
  int64_t bytes() const { return bytes_; }  // of all files

  // Calls `visitor` for every document in order, with one document in memory at a time. Throws bad_file naming the file, and the
  // line or element of a JSON file, that cannot be read.
  void visit(const DocumentVisitor& visitor) const { visit(visitor, visitor); }
  // Calls `conversation` for the rendered conversations.
  void visit(const DocumentVisitor& visitor, const DocumentVisitor& conversation) const;

  // A hash of the contents, and of the template if there may be conversations among them; file names do not matter.
  uint64_t content_hash() const;

 private:
  std::vector<std::string> files_;
  int64_t bytes_ = 0;
  ConversationReader reader_;
};

}  // namespace weft
