// The weights of a model folder: model.safetensors, or the shards that model.safetensors.index.json lists.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/io/safetensors.h"

namespace weft {

class WeightFiles {
 public:
  // Opens a folder or one safetensors file. Every shard is opened and validated; a missing shard, or a tensor in the index that its
  // shard lacks, is an error naming both.
  explicit WeightFiles(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<std::unique_ptr<SafeTensors>>& files() const { return files_; }
  std::vector<std::string> names() const;  // sorted
  bool contains(const std::string& name) const { return holder_.contains(name); }
  const SafeTensors& file_of(const std::string& name) const;  // throws naming folder and tensor
  const SafeTensors::Entry& at(const std::string& name) const { return file_of(name).at(name); }
  Tensor tensor(Device& device, const std::string& name) const { return tensor_from(device, file_of(name), name); }

 private:
  void open_shards(const std::string& index);

  std::string path_;
  std::vector<std::unique_ptr<SafeTensors>> files_;
  std::map<std::string, const SafeTensors*> holder_;
};

}  // namespace weft
