#include "weft/data/chat_lines.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/data/documents.h"
#include "weft/io/mapped_file.h"

namespace weft {

void visit_chat_lines(const Documents& documents, const ChatLineVisitor& visitor) {
  for (const std::string& path : documents.files()) {
    const MappedFile file(path);
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
    int64_t number = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") != line.npos) visitor(line, join(path, ":", number));
    }
  }
}

}  // namespace weft
