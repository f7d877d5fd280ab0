// The members of a request's JSON object, checked: a value of another type or out of range is an ApiError that names the parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/json.h"

namespace weft::serve {

// Parses the body of a request. Throws an ApiError of status 400 if it is not a JSON object, is deeper than 64 levels, repeats a key or
// has an object of more than 1000 members.
Json parse_body(std::string_view body);

class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  // Null and absent are the same, as OpenAI's clients send both.
  const Json* find(const std::string& key) const;
  std::optional<double> number(const std::string& key, double least, double most) const;
  std::optional<int64_t> integer(const std::string& key, int64_t least, int64_t most) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key) const;                // "" if absent
  std::vector<std::string> texts(const std::string& key) const;  // one string or a list of them

 private:
  const Json& object_;
};

}  // namespace weft::serve
