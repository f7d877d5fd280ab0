// Reads JSON from untrusted files: limits on size and depth, no duplicate keys, and errors with the file, the path
// ($.rope_scaling.factor), the value found and what was expected. Not installed: nlohmann stays out of public headers.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/check.h"

namespace weft {

using Json = nlohmann::json;

struct JsonLimits {
  size_t bytes = size_t(256) << 20;
  int depth = 64;
  size_t members = std::numeric_limits<size_t>::max();  // of one object
};

// Throws bad_file with the position where the text is not JSON, too deep, or has a duplicate key; recognised other formats
// (weft/io/recognise.h) are named.
Json parse_json(const std::string& file, std::string_view text, const JsonLimits& limits = {});
Json read_json(const std::string& path, const JsonLimits& limits = {});

// The value as short text on one line, for a message.
std::string shown_value(const Json& value);
std::string shown(std::string_view text);
// The reason in the message of a parse error, without the place and the text that was read: "unexpected end of input; expected '}'".
std::string parse_error_reason(const std::exception& error);

// A value of a document and its path in it. The document must outlive it.
class JsonNode {
 public:
  JsonNode(std::string file, const Json& root) : file_(std::move(file)), path_("$"), value_(&root) {}

  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  const Json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  // Members of an object. find() returns nothing for a key that is absent or null; at() throws for both.
  std::optional<JsonNode> find(const std::string& key) const;
  JsonNode at(const std::string& key) const;
  std::vector<JsonNode> elements() const;                         // of a list
  std::vector<std::pair<std::string, JsonNode>> members() const;  // of an object
  const JsonNode& object() const { return expect(value_->is_object(), "an object"); }
  const JsonNode& list() const { return expect(value_->is_array(), "a list"); }

  std::string text() const { return expect(value_->is_string(), "a string").value_->get<std::string>(); }
  bool boolean() const { return expect(value_->is_boolean(), "true or false").value_->get<bool>(); }
  double number() const { return expect(value_->is_number(), "a number").value_->get<double>(); }
  int64_t integer(int64_t least = 0, int64_t most = std::numeric_limits<int64_t>::max()) const;

  // The member's value, or `otherwise` if it is absent or null.
  std::string text_or(const std::string& key, const std::string& otherwise) const;
  bool boolean_or(const std::string& key, bool otherwise) const;
  double number_or(const std::string& key, double otherwise) const;
  int64_t integer_or(const std::string& key, int64_t otherwise, int64_t least = 0,
                     int64_t most = std::numeric_limits<int64_t>::max()) const;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorCode::bad_file, file_, path_, " ", parts...);
  }
  // Fails for a valid option that this library does not support.
  template <class... Parts>
  [[noreturn]] void unsupported(const Parts&... parts) const {
    fail(ErrorCode::unsupported, file_, path_, " ", parts...);
  }

 private:
  JsonNode(std::string file, std::string path, const Json* value) : file_(std::move(file)), path_(std::move(path)), value_(value) {}
  const JsonNode& expect(bool ok, const char* what) const;

  std::string file_, path_;
  const Json* value_;
};

}  // namespace weft
