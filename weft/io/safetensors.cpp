#include "weft/io/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"

namespace weft {
namespace {

using nlohmann::json;

template <class... Parts>
[[noreturn]] void bad(const std::string& path, const Parts&... parts) {
  fail(ErrorCode::bad_file, path, parts...);
}

DType dtype_of_name(const std::string& path, const std::string& tensor, const std::string& name) {
  static const std::map<std::string, DType> kKnown = {{"F32", DType::f32}, {"BF16", DType::bf16}, {"F16", DType::f16},
                                                      {"I32", DType::i32}, {"U32", DType::u32},   {"U8", DType::u8}};
  const auto found = kKnown.find(name);
  if (found == kKnown.end()) bad(path, "tensor '", tensor, "' has dtype '", name, "', expected F32, BF16, F16, I32, U32 or U8");
  return found->second;
}

int64_t number(const std::string& path, const std::string& tensor, const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(INT64_MAX)) bad(path, "tensor '", tensor, "' has a size or offset that is not a number of bytes: ", value.dump());
  return value.get<int64_t>();
}

SafeTensors::Entry entry(const std::string& path, const std::string& name, const json& info, std::span<const std::byte> data) {
  if (!info.is_object() || !info.contains("dtype") || !info["dtype"].is_string() || !info.contains("shape") || !info["shape"].is_array() ||
      !info.contains("data_offsets") || !info["data_offsets"].is_array() || info["data_offsets"].size() != 2)
    bad(path, "tensor '", name, "' lacks dtype, shape or data_offsets");
  Shape shape;
  if (info["shape"].size() > size_t(kMaxRank)) bad(path, "tensor '", name, "' has ", info["shape"].size(), " axes, at most ", kMaxRank, " are supported");
  for (const json& extent : info["shape"]) shape.push_back(number(path, name, extent));
  const DType dtype = dtype_of_name(path, name, info["dtype"].get<std::string>());
  const int64_t begin = number(path, name, info["data_offsets"][0]), end = number(path, name, info["data_offsets"][1]);
  if (begin > end || end > int64_t(data.size())) bad(path, "tensor '", name, "' lies at bytes ", begin, " to ", end, " of ", data.size());
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes) || bytes != end - begin)
    bad(path, "tensor '", name, "' of shape ", shape, " and dtype ", dtype, " does not fill its ", end - begin, " bytes");
  return {dtype, shape, data.subspan(size_t(begin), size_t(end - begin))};
}

}  // namespace

SafeTensors::SafeTensors(const std::string& path) : path_(path), file_(path) {
  constexpr uint64_t kMostHeader = 100'000'000;  // as the format's own reader
  const auto bytes = file_.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof length) bad(path, "is ", bytes.size(), " bytes long, too short for a safetensors header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMostHeader || length > bytes.size() - sizeof length) bad(path, "claims a header of ", length, " bytes in a file of ", bytes.size());
  const char* text = reinterpret_cast<const char*>(bytes.data()) + sizeof length;
  const json header = json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) bad(path, "has a header that is not a JSON object");
  const auto data = bytes.subspan(sizeof length + length);
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") {
      if (!info.is_object()) bad(path, "has metadata that is not a JSON object");
      for (const auto& [key, value] : info.items()) metadata_[key] = value.is_string() ? value.get<std::string>() : value.dump();
    } else {
      entries_[name] = entry(path, name, info, data);
    }
  }
}

const SafeTensors::Entry& SafeTensors::at(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) bad(path_, "has no tensor named '", name, "'");
  return found->second;
}

}  // namespace weft
