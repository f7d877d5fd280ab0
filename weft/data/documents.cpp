#include "weft/data/documents.h"

#include <utility>

#include "weft/base/check.h"
#include "weft/data/document_stream.h"

namespace weft {

Documents::Documents(const std::string& list, const std::function<void(const std::string&)>& notice, ConversationReader reader,
                     std::string field)
    : list_(list), field_(std::move(field)), reader_(std::move(reader)) {
  for (std::string& path : data_files(list, notice)) {
    const FileStamp stamp = stamp_of(path);
    bytes_ += stamp.bytes;
    files_.push_back({path, stamp});
    paths_.push_back(std::move(path));
  }
  if (bytes_ == 0) fail(ErrorCode::bad_file, list, files_.size() == 1 ? "the file is empty" : "all files in this folder are empty");
}

std::string Documents::render(std::string_view json, const std::string& where) const {
  if (!reader_.render)
    fail(ErrorCode::bad_file, where, "has no field \"", field_,
         "\"; conversations (\"messages\") are read by weft train, and by weft generate --chat");
  return reader_.render(json, where);
}

void Documents::visit(const DocumentVisitor& visitor, const DocumentVisitor& conversation) const {
  DocumentStream stream(files_, {});
  for (Passage passage; stream.next(passage);) {
    if (!passage.json) {
      visitor(passage.text, passage.where);
      continue;
    }
    const JsonDocument document = json_document(passage.text, passage.where, passage.form, field_);
    if (document.conversation)
      conversation(render(document.text, passage.where), passage.where);
    else
      visitor(document.text, passage.where);
  }
}

void Documents::visit_parts(const Cut& cut, const std::function<void(const Part&)>& visitor) const {
  DocumentStream stream(files_, cut);
  for (Passage passage; stream.next(passage);) {
    if (!passage.json) {
      visitor({passage.text, passage.where, passage.begins, stream.raw_bytes()});
      continue;
    }
    const JsonDocument document = json_document(passage.text, passage.where, passage.form, field_);
    const std::string text = document.conversation ? render(document.text, passage.where) : document.text;
    visitor({text, passage.where, true, stream.raw_bytes()});
  }
}

void Documents::visit_json(const JsonVisitor& visitor) const {
  DocumentStream stream(files_, [](std::string_view, size_t most) { return most; });
  stream.on_end = visitor.end_file;
  for (Passage passage; stream.next(passage);) {
    if (!passage.json) fail(ErrorCode::bad_file, passage.where, "is a text file, expected JSON lines (.jsonl, .ndjson) or JSON (.json)");
    visitor.document(passage.text, passage.where);
    if (visitor.read) visitor.read(stream.raw_bytes());
  }
}

}  // namespace weft
