// weft tokenize: prints the tokens of a text.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/chat_flags.h"
#include "cli/command.h"
#include "weft/base/check.h"
#include "weft/models/tokenizer_folder.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, text;
  std::vector<std::string> conversations;
  ChatFlags chat;
  bool from_input = false, no_special = false, no_generation_prompt = false, json = false;
};

// The tokens of a text. `generated`: of a conversation, the tokens that the assistant says; may be empty.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> generated = {};
};

void print_tokens(const Tokenizer& tokenizer, const Tokens& tokens) {
  const auto pieces = tokenizer.pieces(tokens.ids);
  for (size_t i = 0; i < tokens.ids.size(); ++i)
    std::printf("%8d  %s%s%s\n", tokens.ids[i], pieces[i].c_str(), tokenizer.is_special(tokens.ids[i]) ? "  (special)" : "",
                !tokens.generated.empty() && tokens.generated[i] ? "  (generated)" : "");
  std::printf("%zu tokens\n", tokens.ids.size());
}

Json json_of(const Tokenizer& tokenizer, const Tokens& tokens) {
  return {{"ids", tokens.ids}, {"pieces", tokenizer.pieces(tokens.ids)}, {"decoded", tokenizer.decode(tokens.ids)}};
}

int run_text(Options& options, const Tokenizer& tokenizer) {
  if (options.from_input) options.text.assign(std::istreambuf_iterator<char>(std::cin), {});
  const Tokens tokens{tokenizer.encode(options.text, !options.no_special)};
  if (options.json)
    std::printf("%s\n", json_of(tokenizer, tokens).dump().c_str());
  else
    print_tokens(tokenizer, tokens);
  return kOk;
}

int run_chat(const Options& options, const TokenizerFolder& folder) {
  const ChatFormat format = options.chat.format(folder);
  Json all = Json::array();
  for (const std::string& path : options.conversations)
    for (Conversation& conversation : read_conversations(path)) {
      options.chat.set_variables(conversation);
      const ChatFormat::Encoded encoded = format.encode(conversation, folder.tokenizer(), !options.no_generation_prompt);
      const Tokens tokens{encoded.ids, encoded.generated};
      if (!options.json) {
        print_tokens(folder.tokenizer(), tokens);
        continue;
      }
      all.push_back(json_of(folder.tokenizer(), tokens));
      all.back()["text"] = encoded.text;
      all.back()["generated"] = encoded.generated.empty() ? Json(nullptr) : Json(encoded.generated);
    }
  if (options.json) std::printf("%s\n", (all.size() == 1 ? all[0] : all).dump().c_str());
  return kOk;
}

int run(Options options) {
  const bool chats = !options.conversations.empty();
  check(!chats || options.from_input, "tokenize", "--chat takes its text from a conversation; do not pass another");
  check(!chats || !options.no_special, "tokenize", "--no-special has no effect on --chat: the template writes every special token");
  check(chats || (!options.chat.given() && !options.no_generation_prompt), "tokenize",
        "--template, --template-file, --set and --no-generation-prompt apply to --chat alone");
  const TokenizerFolder folder(options.model);
  return chats ? run_chat(options, folder) : run_text(options, folder.tokenizer());
}

}  // namespace

Run add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens of a text, as the model's tokenizer encodes it");
  command->footer("A text is encoded as it is; --chat applies the folder's chat template to a conversation and shows what the model sees.");
  auto options = std::make_shared<Options>();
  command->add_option("MODEL_DIR", options->model, "A Hugging Face model folder, a tokenizer.json or a GGUF file")->required();
  CLI::Option* text = command->add_option("TEXT", options->text, "The text (default: read from standard input)");
  command->add_flag("--no-special", options->no_special, "Leave out the special tokens that the tokenizer adds around a text (BOS, EOS)");
  command
      ->add_option(
          "--chat", options->conversations,
          "File with a conversation to encode with the chat template: JSON, or one per line of a .jsonl file; - is standard input; "
          "repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  options->chat.add_to(*command);
  command->add_flag("--no-generation-prompt", options->no_generation_prompt, "--chat: leave out the beginning of the answer to come");
  command->add_flag(
      "--json", options->json,
      "Print {\"ids\", \"pieces\", \"decoded\"}; of a conversation also its \"text\" and \"generated\", 1 for each token that the "
      "assistant says (null: the template does not mark them)");
  return [options, text] {
    options->from_input = text->count() == 0;
    return run(*options);
  };
}

}  // namespace weft::cli
