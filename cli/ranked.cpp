#include "cli/ranked.h"

#include <cstdio>
#include <new>

#include "cli/exit_code.h"
#include "weft/comm/launch.h"
#include "weft/train/agreement.h"

namespace weft::cli {
namespace {

Launch launch() {
  try {
    return launch_of_environment();
  } catch (const Error&) {  // open_communicator() reports it
    return {};
  }
}

// Ends all ranks after an error of this one.
int end_all(Communicator* ranks, const char* text, int code) {
  std::fflush(stdout);
  const bool several = ranks && ranks->size() > 1;
  std::fprintf(stderr, "weft: %s%s%s\n", several ? ranks->name_of(ranks->rank()).c_str() : "", several ? ": " : "", text);
  std::fflush(stderr);
  if (several) ranks->abort(code);
  return code;
}

}  // namespace

bool one_of_several() { return launch().size > 1; }
bool first_of_several() { return launch().rank == 0; }

int ranked(std::unique_ptr<Communicator>& ranks, const std::function<int()>& work) {
  if (ranks->size() == 1) return work();
  try {
    return work();
  } catch (const AgreedError& error) {
    if (first_of_several()) std::fprintf(stderr, "weft: %s\n", error.what());
    return exit_code(error.code());
  } catch (const Error& error) {
    return end_all(ranks.get(), error.what(), exit_code(error.code()));
  } catch (const std::bad_alloc&) {
    return end_all(ranks.get(), "out of memory", kFailed);
  } catch (const std::exception& error) {
    return end_all(ranks.get(), error.what(), kFailed);
  }
}

int wrong_usage(const std::string& text) {
  std::unique_ptr<Communicator> ranks;
  try {
    ranks = open_communicator();
  } catch (const Error& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return exit_code(error.code());
  }
  return ranked(ranks, [&]() -> int {
    Agreement(*ranks).all([&] { throw Error(ErrorCode::invalid_argument, "train", text); });
    return kUsage;
  });
}

}  // namespace weft::cli
