// Any bytes as a config.json and as a generation_config.json: rejected with one error, or the values survive being written and read
// again.
#include "weft/models/config_json.h"

#include "tests/fuzz/targets.h"

namespace weft::fuzz {
namespace {

template <class Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require_file_error(error);
  }
}

}  // namespace

void config(std::string_view bytes) {
  std::string written;
  ModelConfig config;
  read_or_refuse([&] { written = model_config_json(config = parse_model_config(bytes)); });
  if (!written.empty()) require(parse_model_config(written) == config, "a config.json changed by being written and read");
  read_or_refuse([&] { generation_config_json(parse_generation_config(bytes)); });
}

}  // namespace weft::fuzz
