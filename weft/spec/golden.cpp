// Cases from golden files: safetensors with the parameters of each case as JSON in the metadata.
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/io/safetensors.h"
#include "weft/spec/runner.h"

namespace weft::spec {
namespace {

using nlohmann::json;

class FileCase : public GoldenCase {
 public:
  FileCase(std::shared_ptr<SafeTensors> file, size_t index, json parameters)
      : file_(std::move(file)), prefix_(std::to_string(index) + "."), parameters_(std::move(parameters)) {}

  double number(const std::string& name) const override { return parameters_.at(name).get<double>(); }
  std::vector<int64_t> numbers(const std::string& name) const override { return parameters_.at(name).get<std::vector<int64_t>>(); }
  Shape shape(const std::string& tensor) const override { return file_->at(prefix_ + tensor).shape; }

  std::vector<double> values(const std::string& tensor) const override {
    const SafeTensors::Entry& entry = file_->at(prefix_ + tensor);
    std::vector<double> values(size_t(entry.shape.numel()));
    dispatch<float, int32_t>(file_->dtype(prefix_ + tensor), [&]<class T>() {
      for (size_t i = 0; i < values.size(); ++i) {
        T value;
        std::memcpy(&value, entry.bytes.data() + i * sizeof(T), sizeof(T));
        values[i] = double(value);
      }
    });
    return values;
  }

 private:
  std::shared_ptr<SafeTensors> file_;
  std::string prefix_;
  json parameters_;
};

}  // namespace

std::vector<Case> golden_cases(const Registry& registry, const std::string& folder) {
  std::vector<Case> cases;
  for (const GoldenSource& source : registry.golden_sources()) {
    auto file = std::make_shared<SafeTensors>(folder + "/" + source.file);
    const auto found = file->metadata().find("cases");
    if (found == file->metadata().end()) fail(ErrorCode::bad_file, file->path(), "has no 'cases' in its metadata");
    const json list = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    if (!list.is_array()) fail(ErrorCode::bad_file, file->path(), "has 'cases' that are not a JSON list");
    for (size_t i = 0; i < list.size(); ++i)
      cases.push_back({source.op, source.variant, DType::f32, std::to_string(i),
                       [=, make = source.make, parameters = list[i]] { return make(FileCase(file, i, parameters)); }});
  }
  return cases;
}

}  // namespace weft::spec
