// weft prepare: tokenises data into a folder that weft train reads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/train_signals.h"
#include "weft/base/check.h"
#include "weft/data/documents.h"
#include "weft/data/prepare.h"
#include "weft/train/conversations.h"
#include "weft/train/setup.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

struct Options {
  TrainConfig config;
  std::string model, vocabulary;
  int64_t shard_tokens = PrepareOptions().shard_tokens;
  bool overwrite = false, json = false;
};

// Ctrl-C ends the work between two reports of progress; finished shards stay.
struct StopOnSignal : ProgressListener {
  void progress(const Work&) override {
    if (stop_requested) throw Stopped();
  }
};

void print_outcome(const PrepareOutcome& outcome, const Options& options, int64_t bytes, double seconds) {
  const bool made = outcome.kept < outcome.shards;
  if (options.json) {
    std::printf("%s\n", nlohmann::ordered_json{{"out", options.config.out},
                                               {"tokens", outcome.tokens},
                                               {"documents", outcome.documents},
                                               {"shards", outcome.shards},
                                               {"kept", outcome.kept},
                                               {"bytes", bytes},
                                               {"seconds", seconds}}
                            .dump()
                            .c_str());
    return;
  }
  std::printf("%s: %lld tokens of %lld documents in %lld shard%s%s\n", options.config.out.c_str(), (long long)outcome.tokens,
              (long long)outcome.documents, (long long)outcome.shards, outcome.shards == 1 ? "" : "s",
              made ? "" : ", prepared before and unchanged");
  if (made && outcome.kept == 0) std::printf("%.1f s, %.1f MB/s\n", seconds, double(bytes) / 1e6 / std::max(seconds, 1e-3));
  std::printf("weft train --data %s trains on it\n", options.config.out.c_str());
}

int run(Options options) {
  TrainConfig& config = options.config;
  if (!options.model.empty()) config.model = options.model;
  if (!options.vocabulary.empty()) config.vocabulary = options.vocabulary;
  check(options.model.empty() || is_folder(options.model), "prepare", "model '", options.model, "' is not a folder");
  check(!config.tokenizer.empty() || !options.model.empty() || !options.vocabulary.empty(), "prepare",
        "there is no tokenizer: pass --tokenizer FOLDER, --model FOLDER or --vocabulary bytes");
  check(config.data != "sums", "prepare", "the built-in sums need no preparation");
  check_config(config);
  handle_train_signals(0, 1);
  ShownProgress progress;
  StopOnSignal stop;
  const Listening listening(stop);
  const auto notice = [&](const std::string& text) {
    progress.hide();
    std::fprintf(stderr, "%s\n", text.c_str());
  };
  const auto began = std::chrono::steady_clock::now();
  try {
    const Documents documents(config.data, notice, conversation_reader(config), config.field);
    const auto vocabulary = training_vocabulary(config);
    const PrepareOutcome outcome =
        prepare(documents, *vocabulary, config.out,
                {.threads = int(config.threads),
                 .overwrite = options.overwrite,
                 .copy_tokenizer = true,
                 .shard_tokens = options.shard_tokens,
                 .batch_bytes = size_t(std::min<int64_t>(options.shard_tokens, int64_t(PrepareOptions().batch_bytes))),
                 .notice = notice});
    progress.hide();
    print_outcome(outcome, options, documents.bytes(), std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    return kOk;
  } catch (const Stopped&) {
    progress.hide();
    std::printf("stopped; the same command continues after the last whole shard\n");
    return kFailed;
  }
}

}  // namespace

Run add_prepare(CLI::App& app) {
  CLI::App* command = app.add_subcommand("prepare", "Tokenise data into a folder that weft train reads at once");
  command->footer(
      "Tokenises on all threads in bounded memory. A preparation that was killed is continued by the same command. weft train --data OUT "
      "uses the tokenizer that is kept in OUT, unless another one is given.");
  auto options = std::make_shared<Options>();
  TrainConfig& config = options->config;
  command
      ->add_option("--data", config.data,
                   "Text, JSONL or JSON files (also .gz, .zst), folders and globs of them; several separated by commas")
      ->required();
  command->add_option("--out", config.out, "Folder for the shards")->required();
  command->add_option("--tokenizer", config.tokenizer, "Folder with tokenizer.json");
  command->add_option("--model", options->model, "Model folder whose tokenizer to use");
  command->add_option("--vocabulary", options->vocabulary, "Without a tokenizer: the 'bytes' or the 'characters' of the text");
  command->add_option("--end-token", config.end_token, "Token placed between documents (default: the tokenizer's; none: no token)");
  command->add_option("--chat-template", config.chat_template, "chatml: renders conversations (\"messages\") with this chat template");
  command->add_option("--field", config.field, "Field of a JSON object that holds its text")->capture_default_str();
  command->add_option("--threads", config.threads, "CPU threads (0: all this process may use); the result does not depend on it");
  command
      ->add_option("--shard-tokens", options->shard_tokens,
                   "Tokens of a shard, at least: what is lost when the preparation is killed; training does not depend on it")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(65536), int64_t(1) << 30));
  command->add_flag("--overwrite", options->overwrite, "Replace what was prepared in --out of other data or with another tokenizer");
  command->add_flag("--json", options->json, "Print the result as JSON");
  return [options] { return run(*options); };
}

}  // namespace weft::cli
