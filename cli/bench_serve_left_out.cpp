// weft bench --serve in a build without cpp-httplib: reports that it is missing.
#include "cli/bench_serve.h"
#include "weft/base/check.h"

namespace weft::cli {

int bench_serve(const bench::ServeLoad&, bool) {
  fail(ErrorCode::unsupported, "bench", "--serve is not in this build; install libcpp-httplib-dev and configure with -DWEFT_SERVE=ON");
}

}  // namespace weft::cli
