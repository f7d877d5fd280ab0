#include "weft/data/document_stream.h"

#include "weft/base/check.h"
#include "weft/data/passage_readers.h"

namespace weft {

DocumentStream::DocumentStream(const std::vector<DataFile>& files, Cut cut, const StreamPosition& from)
    : files_(files), cut_(std::move(cut)), begin_(from) {
  for (int64_t file = 0; file < from.file; ++file) finished_ += files_[size_t(file)].stamp.bytes;
}

DocumentStream::~DocumentStream() = default;

void DocumentStream::open(const StreamPosition& from) {
  const DataFile& file = files_[size_t(from.file)];
  stream_ = std::make_unique<ByteStream>(file.path, coding_of(file.path));
  if (const FileStamp& now = stream_->stamp(); now != file.stamp)
    fail(ErrorCode::bad_file, file.path, "changed while the data was read: it had ", file.stamp.bytes, " bytes, and now has ", now.bytes,
         now.bytes == file.stamp.bytes ? " other ones" : "", "; start again when nothing writes to it");
  reader_ = passage_reader(*stream_, kind_of(file.path), cut_, from);
}

bool DocumentStream::next(Passage& passage) {
  while (begin_.file < int64_t(files_.size())) {
    if (!reader_) open(begin_);
    if (reader_->next(passage)) return true;
    if (on_end) on_end(begin_.file, stream_->hash());
    finished_ += stream_->stamp().bytes;
    reader_.reset();
    stream_.reset();
    begin_ = {begin_.file + 1};
  }
  return false;
}

StreamPosition DocumentStream::position() const {
  if (!reader_) return begin_;
  StreamPosition position = reader_->position();
  position.file = begin_.file;
  return position;
}

int64_t DocumentStream::raw_bytes() const { return finished_ + (stream_ ? stream_->raw_bytes() : 0); }

}  // namespace weft
