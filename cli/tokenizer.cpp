// weft tokenizer train: trains a tokenizer and writes its folder.
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/notice.h"
#include "weft/base/check.h"
#include "weft/data/tokenizer_training/train_tokenizer.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

struct Options {
  std::string data, field = "text", out, pattern = "gpt2", end_token = "<|endoftext|>";
  TokenizerTraining training;
};

// Tells of a result that is not what was asked for, though usable.
void tell_shortfalls(const TrainedTokenizer& trained, const TokenizerTraining& asked) {
  if (trained.exhausted)
    notice(join("the data is exhausted: after ", trained.merges, " merges no pair of tokens occurs ",
                asked.min_frequency > 1 ? join(asked.min_frequency, " times") : "in it", "; the vocabulary has ", trained.vocabulary,
                " tokens, --vocab asked for ", asked.vocabulary));
  if (trained.dropped_words > 0)
    notice(join("more than ", asked.most_words, " distinct words: ", trained.dropped_words, " of them that had occurred at most ",
                trained.dropped_count, trained.dropped_count == 1 ? " time" : " times", " were dropped (",
                100.0 * double(trained.dropped_occurrences) / double(trained.words),
                " % of the words of the text); --most-words keeps more of them in memory"));
}

int run(Options options) {
  TokenizerTraining& training = options.training;
  training.pattern = word_pattern(options.pattern);
  training.end_token = options.end_token == "none" ? "" : options.end_token;
  check_options(training);
  check_new_folder(options.out);
  const auto began = std::chrono::steady_clock::now();
  const TrainedTokenizer trained = [&] {
    ShownProgress progress;
    const Documents documents(
        options.data,
        [&](const std::string& text) {
          progress.hide();
          notice(text);
        },
        {}, options.field);
    return train_tokenizer(documents, training);
  }();
  write_tokenizer_folder(trained, options.out);
  tell_shortfalls(trained, training);
  std::printf("%s: %lld tokens, %lld merges; %lld words (%lld distinct) in %.1f MB of text, %.1f s\n", options.out.c_str(),
              (long long)trained.vocabulary, (long long)trained.merges, (long long)trained.words, (long long)trained.distinct_words,
              double(trained.bytes) / 1e6, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return kOk;
}

}  // namespace

Run add_tokenizer(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenizer", "Train a tokenizer");
  command->require_subcommand(0, 1);
  CLI::App* train = command->add_subcommand("train", "Train a byte-level BPE tokenizer and write its folder");
  train->footer(
      "The folder has a tokenizer.json and a tokenizer_config.json, for weft train --tokenizer, weft tokenize, tokenizers and "
      "transformers.");
  auto options = std::make_shared<Options>();
  train->add_option("--data", options->data, "Text to train on: files, folders or a list of them, as for weft train")->required();
  train->add_option("--field", options->field, "Field of a JSON object that has its text")->capture_default_str();
  train->add_option("--out", options->out, "Folder to write; it must not exist")->required();
  train->add_option("--vocab", options->training.vocabulary, "Number of tokens, with the special ones and the 256 bytes")
      ->capture_default_str();
  train->add_option("--pattern", options->pattern, "Pattern that splits text into words: gpt2, or llama3 (GPT-4's)")->capture_default_str();
  train->add_option("--end-token", options->end_token, "Special token that ends a document; none: no such token")->capture_default_str();
  train->add_option("--special", options->training.special, "A further special token; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  train->add_option("--min-frequency", options->training.min_frequency, "Leave pairs that occur less often unmerged")
      ->capture_default_str();
  train
      ->add_option("--most-words", options->training.most_words,
                   "Distinct words in memory, some 200 bytes each; beyond it the rarest are dropped")
      ->capture_default_str();
  train->add_option("--threads", options->training.threads, "Threads (default: all cores); the result is the same for any number")
      ->check(CLI::Range(1, 1024));
  return [options, train] {
    check(train->parsed(), "tokenizer", "expected a command: weft tokenizer train; see weft tokenizer --help");
    return run(*options);
  };
}

}  // namespace weft::cli
