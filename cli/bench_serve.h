#pragma once

#include "bench/serve_load.h"

namespace weft::cli {

// weft bench --serve URL: sends load to a server on this machine and prints its throughput and the times of its tokens.
int bench_serve(const bench::ServeLoad& load, bool json);

}  // namespace weft::cli
