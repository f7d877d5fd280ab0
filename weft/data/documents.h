// The documents behind --data: an unweighted list of files, folders and globs (weft/data/data_list.h). The extension of a file decides
// how it is read:
//   .txt .text .md     the file is one document
//   .jsonl .ndjson     each line is a document: an object with a field "text", or the field that --field names
//   .json              each element of a list is a document (such an object, or a string), or each of several objects in a row; a
//                      .jsonl file that holds a list is read the same way
//   .gz .zst           after one of these: the same, compressed by gzip or zstd
// An object without the field may be a conversation, with a field "messages", which a chat template renders as text.
// A folder stands for all such files in it and its subfolders, in the order of their names; other and hidden files are skipped. A
// file with another extension is read as text if --data names it. Text is UTF-8; a leading byte order mark is skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/file_stamp.h"

namespace weft {

// A document and what to call it in an error: "corpus.txt", "corpus.jsonl:17", "corpus.json[17]".
using DocumentVisitor = std::function<void(std::string_view text, const std::string& where)>;

// Renders a conversation, given as the JSON of its object.
struct ConversationReader {
  std::function<std::string(std::string_view json, const std::string& where)> render = {};  // empty: conversations are refused
  uint64_t identity = 0;                                                                    // another one for another template
};

// A place in (0, most] where a text can be split; 0: none is known.
using Cut = std::function<size_t(std::string_view text, size_t most)>;

struct DataFile {
  std::string path;
  FileStamp stamp;  // when it was listed
};

class Documents {
 public:
  // Throws when a path does not exist or holds no data. Calls `notice` (may be empty) once with the names of skipped files.
  explicit Documents(const std::string& list, const std::function<void(const std::string&)>& notice = {}, ConversationReader reader = {},
                     std::string field = "text");

  const std::string& list() const { return list_; }
  const std::vector<std::string>& files() const { return paths_; }
  const std::vector<DataFile>& listed() const { return files_; }
  const std::string& field() const { return field_; }
  int64_t bytes() const { return bytes_; }  // of all files, as they are on disk

  // Calls `visitor` for every document in order, with one document in memory at a time. Throws bad_file naming the file, and the
  // line or element of a JSON file, that cannot be read.
  void visit(const DocumentVisitor& visitor) const { visit(visitor, visitor); }
  // Calls `conversation` for the rendered conversations.
  void visit(const DocumentVisitor& visitor, const DocumentVisitor& conversation) const;

  // Visits text files in parts of about 64 KiB, split where `cut` allows it, so that a file need not fit into memory. `begins`: the
  // part is the first of its document. `bytes`: how much of bytes() was read so far.
  struct Part {
    std::string_view text;
    const std::string& where;
    bool begins;
    int64_t bytes;
  };
  void visit_parts(const Cut& cut, const std::function<void(const Part&)>& visitor) const;

  // Visits the JSON of every document as it is. Throws for a text file. `read` is called after each with how much of bytes() was read,
  // `end_file` at the end of each file with its hash (hash_of_file).
  struct JsonVisitor {
    DocumentVisitor document;
    std::function<void(int64_t bytes)> read = {};
    std::function<void(int64_t file, uint64_t hash)> end_file = {};
  };
  void visit_json(const JsonVisitor& visitor) const;

  // Renders the JSON of a conversation. Throws without a template.
  std::string render(std::string_view json, const std::string& where) const;
  uint64_t template_identity() const { return reader_.identity; }

 private:
  std::string list_, field_;
  std::vector<std::string> paths_;
  std::vector<DataFile> files_;
  int64_t bytes_ = 0;
  ConversationReader reader_;
};

}  // namespace weft
