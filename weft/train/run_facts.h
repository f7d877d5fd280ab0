// Host, version and dates for the report of a run.
#pragma once

#include <chrono>
#include <string>

namespace weft {

std::string host_name();
std::string version_text();                                         // "0.1.0"
std::string date_text(std::chrono::system_clock::time_point when);  // "2026-01-31 17:05:09 UTC"

}  // namespace weft
