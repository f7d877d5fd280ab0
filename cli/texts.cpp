#include "cli/texts.h"

#include "weft/io/json.h"
#include "weft/io/mapped_file.h"

namespace weft::cli {

std::vector<Text> read_texts(const std::string& path) {
  const MappedFile file(path);
  const std::string_view all(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (!path.ends_with(".jsonl")) return {{path, std::string(all)}};
  std::vector<Text> texts;
  int64_t number = 1;
  for (size_t at = 0; at < all.size(); ++number) {
    const size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = join(path, ":", number);
    const Json document = parse_json(where, line);
    texts.push_back({where, JsonNode(where, document).object().at("text").text()});
  }
  return texts;
}

}  // namespace weft::cli
