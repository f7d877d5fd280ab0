#include "weft/io/weight_files.h"

#include <filesystem>

#include "weft/io/is_there.h"
#include "weft/io/json.h"
#include "weft/io/recognise.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

// The shard index of a folder that has no model.safetensors.
std::string index_of(const std::string& folder) {
  const std::string index = expected_in_folder(folder, "model.safetensors.index.json");
  std::error_code ignored;
  if (fs::exists(index, ignored)) return index;
  refuse_pytorch_weights(folder);
  fail(ErrorCode::bad_file, folder, "has neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(path) {
  std::error_code ignored;
  const fs::path folder(path), single = folder / "model.safetensors";
  if (fs::is_directory(folder, ignored) && !fs::exists(single, ignored)) {
    open_shards(index_of(path));
    return;
  }
  files_.push_back(std::make_unique<SafeTensors>(fs::is_directory(folder, ignored) ? single.string() : path));
  for (const auto& [name, entry] : files_.front()->entries()) holder_[name] = files_.front().get();
}

void WeightFiles::open_shards(const std::string& index) {
  const Json document = read_json(index);
  const JsonNode map = JsonNode(index, document).at("weight_map");
  std::map<std::string, const SafeTensors*> shards;
  for (const auto& [name, node] : map.members()) {
    const std::string shard = node.text();
    if (shard.empty() || shard != fs::path(shard).filename().string() || shard == "." || shard == "..")
      node.refuse("is '", shown(shard), "', expected the name of a file in the same folder");
    auto [place, added] = shards.try_emplace(shard, nullptr);
    if (added) {
      if (!is_there(fs::path(path_) / shard)) node.refuse("is '", shown(shard), "', which is not in the folder");
      files_.push_back(std::make_unique<SafeTensors>((fs::path(path_) / shard).string()));
      place->second = files_.back().get();
    }
    if (!place->second->contains(name)) node.refuse("lists a tensor that ", place->second->path(), " does not have");
    holder_[name] = place->second;
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : holder_) names.push_back(name);
  return names;
}

const SafeTensors& WeightFiles::file_of(const std::string& name) const {
  const auto found = holder_.find(name);
  if (found == holder_.end()) fail(ErrorCode::bad_file, path_, "has no tensor named '", name, "'");
  return *found->second;
}

}  // namespace weft
