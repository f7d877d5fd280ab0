// Any bytes as a config.json and as a generation_config.json: refused with one error, or what was read survives being
// written and read again.
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/models/config_json.h"

namespace {

template <class Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const weft::Error& error) {
    if (error.code() != weft::ErrorCode::bad_file && error.code() != weft::ErrorCode::unsupported) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string written;
  weft::ModelConfig config;
  read_or_refuse([&] { written = weft::model_config_json(config = weft::parse_model_config(text)); });
  if (!written.empty() && !(weft::parse_model_config(written) == config)) std::abort();
  read_or_refuse([&] { weft::generation_config_json(weft::parse_generation_config(text)); });
  return 0;
}
