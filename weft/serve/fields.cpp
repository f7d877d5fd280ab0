#include "weft/serve/fields.h"

#include "weft/serve/api_error.h"

namespace weft::serve {
namespace {

constexpr size_t kMostMembers = 1000;  // lookup in an ordered_json object is linear (conversation_json.cpp)

}  // namespace

Json parse_body(std::string_view body) {
  Json document;
  try {
    document = parse_json("the request's body", body, {.members = kMostMembers});
  } catch (const Error& error) {
    throw api_error(400, error.what(), "invalid_request_error", "invalid_json");
  }
  if (!document.is_object()) throw api_error(400, "the request's body is not a JSON object", "invalid_request_error", "invalid_json");
  return document;
}

const Json* Fields::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const std::string& key, double least, double most) const {
  const Json* value = find(key);
  if (!value) return {};
  if (!value->is_number()) refuse(key, key, " is ", shown_value(*value), ", expected a number");
  const double number = value->get<double>();
  if (!(number >= least && number <= most)) refuse(key, key, " is ", shown_value(*value), ", expected ", least, " to ", most);
  return number;
}

std::optional<int64_t> Fields::integer(const std::string& key, int64_t least, int64_t most) const {
  const Json* value = find(key);
  if (!value) return {};
  // An unsigned value of 2^63 or more would wrap.
  const bool fits = value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX));
  const int64_t integer = fits ? value->get<int64_t>() : 0;
  if (!fits || integer < least || integer > most)
    refuse(key, key, " is ", shown_value(*value), ", expected an integer from ", least, " to ", most);
  return integer;
}

bool Fields::boolean(const std::string& key, bool otherwise) const {
  const Json* value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(key, key, " is ", shown_value(*value), ", expected true or false");
  return value->get<bool>();
}

std::string Fields::text(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return "";
  if (!value->is_string()) refuse(key, key, " is ", shown_value(*value), ", expected a string");
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) refuse(key, key, " is ", shown_value(*value), ", expected a string or a list of strings");
  std::vector<std::string> texts;
  for (const Json& one : *value) {
    if (!one.is_string()) refuse(key, key, " has ", shown_value(one), ", expected strings");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

}  // namespace weft::serve
