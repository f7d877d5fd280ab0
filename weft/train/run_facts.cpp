#include "weft/train/run_facts.h"

#include <unistd.h>

#include <ctime>

namespace weft {

std::string host_name() {
  char name[256] = "host";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string version_text() { return WEFT_VERSION; }

std::string date_text(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc)};
}

}  // namespace weft
