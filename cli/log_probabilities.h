// Log-probabilities as the commands print them: the shortest decimal number that reads back as the same f32 (the same double, for sums).
// nlohmann's own numbers are not always the shortest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

std::string shortest(float value);
std::string shortest(double value);

// "[-0.25,-1.5]"; null for an infinity or a NaN, which JSON does not have.
std::string json_list(const std::vector<float>& values);
std::string json_number(float value);
std::string json_number(double value);

// The sum in float64, in order.
double sum_of(const std::vector<float>& values);

// The JSON text of an object with a member more.
std::string with_member(std::string object, std::string_view key, std::string_view value);

}  // namespace weft::cli
