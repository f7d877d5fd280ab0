// weft report: compares runs on one page.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "weft/io/atomic_file.h"
#include "weft/train/compare.h"
#include "weft/train/run_facts.h"

namespace weft::cli {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out = "comparison.html";
};

int run(const Options& options) {
  std::vector<ComparedRun> runs;
  for (const std::string& folder : options.runs) runs.push_back(read_run(folder));
  // Runs in folders of the same name are distinguished by their paths.
  std::vector<std::string> names;
  for (const ComparedRun& r : runs) names.push_back(r.name);
  for (size_t i = 0; i < runs.size(); ++i)
    if (std::count(names.begin(), names.end(), names[i]) > 1) runs[i].name = options.runs[i];
  AtomicFile file(options.out);
  file.write(comparison_page(runs, date_text(std::chrono::system_clock::now())));
  file.commit();
  std::printf("report: %s\n", options.out.c_str());
  return kOk;
}

}  // namespace

Run add_report(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "Compare training runs on one page");
  command->footer("Reads config.toml and metrics.jsonl of each run; a run may still be in progress.");
  auto options = std::make_shared<Options>();
  command->add_option("RUN", options->runs, "Folders written by weft train")->required();
  command->add_option("--out", options->out, "HTML page to write")->capture_default_str();
  return [options] { return run(*options); };
}

}  // namespace weft::cli
