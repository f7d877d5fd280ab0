// weft tokenize: prints the tokens of a text.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "weft/models/tokenizer_folder.h"

namespace weft::cli {
namespace {

struct Options {
  std::string model, text;
  bool from_input = false, no_special = false, json = false;
};

int run(Options options) {
  if (options.from_input) options.text.assign(std::istreambuf_iterator<char>(std::cin), {});
  const TokenizerFolder folder(options.model);
  const Tokenizer& tokenizer = folder.tokenizer();
  const auto ids = tokenizer.encode(options.text, !options.no_special);
  const auto pieces = tokenizer.pieces(ids);
  if (options.json) {
    const nlohmann::ordered_json out = {{"ids", ids}, {"pieces", pieces}, {"decoded", tokenizer.decode(ids)}};
    std::printf("%s\n", out.dump().c_str());
    return kOk;
  }
  for (size_t i = 0; i < ids.size(); ++i)
    std::printf("%8d  %s%s\n", ids[i], pieces[i].c_str(), tokenizer.is_special(ids[i]) ? "  (special)" : "");
  std::printf("%zu tokens\n", ids.size());
  return kOk;
}

}  // namespace

Run add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens of a text, as the model's tokenizer encodes it");
  command->footer("Chat templates are not applied: the text is encoded as it is.");
  auto options = std::make_shared<Options>();
  command->add_option("MODEL_DIR", options->model, "A Hugging Face model folder, or a tokenizer.json")->required();
  CLI::Option* text = command->add_option("TEXT", options->text, "The text (default: read from standard input)");
  command->add_flag("--no-special", options->no_special, "Leave out the special tokens that the tokenizer adds around a text (BOS, EOS)");
  command->add_flag("--json", options->json, "Print {\"ids\", \"pieces\", \"decoded\"}");
  return [options, text] {
    options->from_input = text->count() == 0;
    return run(*options);
  };
}

}  // namespace weft::cli
