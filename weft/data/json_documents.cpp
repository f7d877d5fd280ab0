#include "weft/data/json_documents.h"

#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/io/json.h"

namespace weft {
namespace {

nlohmann::json parsed(std::string_view value, const std::string& where, const char* step) {
  try {
    return nlohmann::json::parse(value);
  } catch (const nlohmann::json::parse_error& error) {
    fail(ErrorCode::bad_file, where, "is not valid JSON, at ", step, " ", error.byte, ": ", parse_error_reason(error));
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    fail(ErrorCode::bad_file, where, "is not valid JSON: ", parse_error_reason(error));
  }
}

// "; its fields are "id" and "body"", at most eight of them.
std::string fields_of(const nlohmann::json& json) {
  constexpr size_t kNamed = 8;
  std::string text;
  size_t count = 0;
  for (const auto& [key, value] : json.items())
    if (count++ < kNamed) text += join(text.empty() ? "" : ", ", "\"", key.substr(0, 40), "\"");
  if (count == 0) return "; it has no fields";
  return join("; its fields are ", text, count > kNamed ? join(" and ", count - kNamed, " more") : "", " (--field NAME reads another)");
}

}  // namespace

JsonDocument json_document(std::string_view value, const std::string& where, const JsonForm& form, const std::string& field) {
  nlohmann::json json = parsed(value, where, form.step);
  if (json.is_string() && form.string_allowed) return {std::move(json.get_ref<std::string&>())};
  if (!json.is_object())
    fail(ErrorCode::bad_file, where, "is not a JSON object but ", json.type_name(), ", expected an object with a field \"", field, "\"",
         form.string_allowed ? " or a string" : "");
  const auto text = json.find(field);
  if (text == json.end()) {
    if (json.contains("messages")) return {std::string(value), true};
    fail(ErrorCode::bad_file, where, "has no field \"", field, "\"", fields_of(json));
  }
  if (!text->is_string()) fail(ErrorCode::bad_file, where, "its field \"", field, "\" is not a string but ", text->type_name());
  return {std::move(text->get_ref<std::string&>())};
}

bool ValueEnd::step(char c) {
  if (string_) {
    if (escaped_) return escaped_ = false, true;
    escaped_ = c == '\\';
    if (c == '"') string_ = false, done_ = depth_ == 0;
    return true;
  }
  if (scalar_) return std::string_view(",]}\" \t\r\n").find(c) == std::string_view::npos;
  if (c == '"') return string_ = true;
  if (c == '{' || c == '[') return ++depth_, true;
  if (c == '}' || c == ']') {
    if (depth_ == 0) return false;  // closes the enclosing list or object
    done_ = --depth_ == 0;
    return true;
  }
  if (depth_ == 0) {
    if (c == ',') return false;
    scalar_ = true;
  }
  return true;
}

bool ValueEnd::find(std::string_view text) {
  for (const char c : text) {
    if (done_ || !step(c)) return true;
    ++position_;
  }
  return done_;
}

std::string shown_character(char c) { return c > ' ' && c <= '~' ? join("'", c, "'") : join("byte ", int(uint8_t(c))); }

}  // namespace weft
