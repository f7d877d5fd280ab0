// The documents of files in order, read with bounded memory, from any document on. Not installed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/data_files.h"
#include "weft/data/documents.h"
#include "weft/data/json_documents.h"

namespace weft {

// A place between two passages.
struct StreamPosition {
  int64_t file = 0;
  int64_t offset = 0;  // in the file when it is decompressed
  int64_t count = 0;   // lines or elements of the file before it

  bool operator==(const StreamPosition&) const = default;
};

// A document, or a part of a text file.
struct Passage {
  std::string text, where;
  bool json = false;  // the text is a JSON value, for json_document
  JsonForm form = {};
  bool begins = true, ends = true;
};

// Reads one file.
class PassageReader {
 public:
  virtual ~PassageReader() = default;
  virtual bool next(Passage& passage) = 0;      // false at the end of the file
  virtual StreamPosition position() const = 0;  // after the last passage; `file` is not set
};

class DocumentStream {
 public:
  DocumentStream(const std::vector<DataFile>& files, Cut cut, const StreamPosition& from = {});
  ~DocumentStream();

  // False at the end. Throws bad_file naming the file, and the line or element, that cannot be read.
  bool next(Passage& passage);
  // Of the next passage. Opens no file.
  StreamPosition position() const;
  int64_t raw_bytes() const;  // of all files, read so far

  // Called at the end of each file with its hash (hash_of_file).
  std::function<void(int64_t file, uint64_t hash)> on_end = {};

 private:
  void open(const StreamPosition& from);

  const std::vector<DataFile>& files_;
  const Cut cut_;
  StreamPosition begin_;  // of the next file that is opened
  int64_t finished_ = 0;  // bytes of the files that were read whole
  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<PassageReader> reader_;
};

}  // namespace weft
