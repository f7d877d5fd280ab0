// Checked access to the members of a request's JSON object: a value of a wrong type or out of range is an ApiError that names the
// parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/json.h"

namespace weft::serve {

// Parses the body of a request. Throws an ApiError of status 400 if it is not a JSON object, is nested deeper than 64 levels, repeats a key
// or contains an object of more than 1000 members.
Json parse_body(std::string_view body);

class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  // nullptr if the member is absent or null: OpenAI's clients send either.
  const Json* find(const std::string& key) const;
  std::optional<double> number(const std::string& key, double least, double most) const;
  std::optional<int64_t> integer(const std::string& key, int64_t least, int64_t most) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key) const;                // "" if absent
  std::vector<std::string> texts(const std::string& key) const;  // the value is a string or a list of strings

 private:
  const Json& object_;
};

}  // namespace weft::serve
