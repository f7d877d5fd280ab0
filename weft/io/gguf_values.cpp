// Reads the values of a GGUF file's keys.
#include <cstring>

#include "weft/base/check.h"
#include "weft/io/gguf.h"
#include "weft/io/json.h"

namespace weft {
namespace {

constexpr const char* kTypeNames[] = {"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "text", "list", "u64", "i64", "f64"};

std::string type_name(const Gguf::Value& value) {
  const char* own = kTypeNames[size_t(value.type)];
  return value.type == Gguf::Type::list ? join("list of ", value.count, " ", kTypeNames[size_t(value.element)]) : own;
}

// The number at `at`; nullopt if the type is not numeric. Integers above the range of int64_t are clamped to its maximum.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::optional<int64_t> integer_at(Gguf::Type type, const std::byte* at) {
  switch (type) {
    case Gguf::Type::u8: return load<uint8_t>(at);
    case Gguf::Type::i8: return load<int8_t>(at);
    case Gguf::Type::u16: return load<uint16_t>(at);
    case Gguf::Type::i16: return load<int16_t>(at);
    case Gguf::Type::u32: return load<uint32_t>(at);
    case Gguf::Type::i32: return load<int32_t>(at);
    case Gguf::Type::i64: return load<int64_t>(at);
    case Gguf::Type::u64: return int64_t(std::min<uint64_t>(load<uint64_t>(at), uint64_t(INT64_MAX)));
    default: return std::nullopt;
  }
}

std::optional<double> number_at(Gguf::Type type, const std::byte* at) {
  if (type == Gguf::Type::f32) return load<float>(at);
  if (type == Gguf::Type::f64) return load<double>(at);
  const auto integer = integer_at(type, at);
  return integer ? std::optional(double(*integer)) : std::nullopt;
}

std::string_view text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

const Gguf::Value* Gguf::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

void Gguf::lacks(std::string_view key) const { fail(ErrorCode::bad_file, path_, "has no key '", key, "'"); }

void Gguf::has_other_type(std::string_view key, const Value& value, const char* expected) const {
  fail(ErrorCode::bad_file, path_, key, " is a ", type_name(value), ", expected ", expected);
}

std::optional<std::string> Gguf::find_text(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != Type::text) has_other_type(key, *value, "a text");
  return std::string(text_of(value->bytes));
}

std::optional<int64_t> Gguf::find_integer(std::string_view key, int64_t least, int64_t most) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  const auto number = value->type == Type::list || value->type == Type::text ? std::nullopt : integer_at(value->type, value->bytes.data());
  if (!number) has_other_type(key, *value, "an integer");
  if (*number < least || *number > most) fail(ErrorCode::bad_file, path_, key, " is ", *number, ", expected ", least, " to ", most);
  return number;
}

std::optional<double> Gguf::find_number(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  const auto number = value->type == Type::list || value->type == Type::text ? std::nullopt : number_at(value->type, value->bytes.data());
  if (!number) has_other_type(key, *value, "a number");
  return number;
}

std::optional<bool> Gguf::find_boolean(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != Type::boolean) has_other_type(key, *value, "true or false");
  return value->bytes[0] != std::byte{0};
}

std::string Gguf::text(std::string_view key) const {
  const auto value = find_text(key);
  if (!value) lacks(key);
  return *value;
}

int64_t Gguf::integer(std::string_view key, int64_t least, int64_t most) const {
  const auto value = find_integer(key, least, most);
  if (!value) lacks(key);
  return *value;
}

double Gguf::number(std::string_view key) const {
  const auto value = find_number(key);
  if (!value) lacks(key);
  return *value;
}

// The lengths of the texts were validated when the file was read.
std::vector<std::string_view> Gguf::texts(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return {};
  if (value->type != Type::list || value->element != Type::text) has_other_type(key, *value, "a list of texts");
  std::vector<std::string_view> list;
  for (size_t at = 0; at < value->bytes.size();) {
    const auto length = size_t(load<uint64_t>(value->bytes.data() + at));
    list.push_back(text_of(value->bytes.subspan(at + sizeof(uint64_t), length)));
    at += sizeof(uint64_t) + length;
  }
  return list;
}

std::vector<int64_t> Gguf::integers(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return {};
  std::vector<int64_t> list;
  if (value->type != Type::list) has_other_type(key, *value, "a list of integers");
  const size_t step = value->count ? value->bytes.size() / size_t(value->count) : 1;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto number = value->element == Type::text ? std::nullopt : integer_at(value->element, value->bytes.data() + i * step);
    if (!number) has_other_type(key, *value, "a list of integers");
    list.push_back(*number);
  }
  return list;
}

std::vector<float> Gguf::numbers(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return {};
  std::vector<float> list;
  if (value->type != Type::list) has_other_type(key, *value, "a list of numbers");
  const size_t step = value->count ? value->bytes.size() / size_t(value->count) : 1;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto number = value->element == Type::text ? std::nullopt : number_at(value->element, value->bytes.data() + i * step);
    if (!number) has_other_type(key, *value, "a list of numbers");
    list.push_back(float(*number));
  }
  return list;
}

std::string Gguf::shown_value(const Value& value) const {
  if (value.type == Type::text) return shown(text_of(value.bytes));
  if (value.type == Type::boolean) return value.bytes[0] != std::byte{0} ? "true" : "false";
  if (value.type == Type::list) return type_name(value);
  if (const auto integer = integer_at(value.type, value.bytes.data())) return join(*integer);
  return join(*number_at(value.type, value.bytes.data()));
}

}  // namespace weft
