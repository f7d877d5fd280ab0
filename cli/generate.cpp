// weft generate: continues prompts with a model, and streams the text.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/chat_flags.h"
#include "cli/command.h"
#include "cli/log_probabilities.h"
#include "cli/notice.h"
#include "cli/sampling_flags.h"
#include "cli/waiting.h"
#include "cli/weights_flag.h"
#include "weft/backends/open.h"
#include "weft/data/documents.h"
#include "weft/generate/chat_session.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/models/folder.h"

namespace weft::cli {
namespace {

using Ids = std::vector<int32_t>;

struct Options {
  std::string folder, adapter, device = "cpu", dtype, prompts_file;
  WeightsFlag weights;
  std::vector<std::string> words, prompts, prompt_ids, conversations, stop;
  std::optional<int64_t> batch;
  int64_t top_logprobs = 0;
  SamplingFlags sampling;
  ChatFlags chat;
  int threads = 0;
  int64_t context = 0;
  bool json = false, ignore_eos = false, special = false, logprobs = false;

  bool chats() const { return !conversations.empty(); }
};

constexpr int64_t kDefaultTokens = 128;

Ids parse_ids(const std::string& list) {
  Ids ids;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    size_t used = 0;
    int64_t id = -1;
    try {
      id = std::stoll(part, &used);
    } catch (const std::exception&) {
    }
    check(used == part.size() && id >= 0 && id <= INT32_MAX, "generate", "--prompt-ids has '", part, "', expected token ids such as 1,2,3");
    ids.push_back(int32_t(id));
  }
  check(!ids.empty(), "generate", "--prompt-ids is empty");
  return ids;
}

bool input_is_piped() { return ::isatty(STDIN_FILENO) == 0; }

// Positional words form one prompt, as with echo. Without any prompt, standard input is the prompt.
std::vector<std::string> texts_of(const Options& o) {
  std::vector<std::string> texts;
  if (!o.words.empty()) {
    texts.emplace_back();
    for (const std::string& word : o.words) texts.back() += (&word == &o.words.front() ? "" : " ") + word;
  }
  texts.insert(texts.end(), o.prompts.begin(), o.prompts.end());
  if (!o.prompts_file.empty())
    Documents(o.prompts_file, notice).visit([&](std::string_view text, const std::string& where) {
      check_utf8(text, where);
      texts.emplace_back(text);
    });
  if (texts.empty() && o.prompt_ids.empty() && input_is_piped()) {
    texts.emplace_back(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    check(!texts.back().empty(), "generate", "no prompt: standard input is empty; pass a text or --prompt-ids 1,2,3");
  }
  return texts;
}

// Encodes conversations with the template: the model answers the last message of each.
std::vector<Ids> prompts_of(const Options& o, const ModelFolder& folder, const ChatFormat& format) {
  std::vector<Ids> prompts;
  for (const std::string& path : o.conversations)
    for (Conversation& conversation : read_conversations(path)) {
      o.chat.set_variables(conversation);
      prompts.push_back(format.encode(conversation, folder.tokenizer(), true).ids);
      check(!prompts.back().empty(), "generate", "the conversation in ", path, " renders to zero tokens");
    }
  return prompts;
}

// Encodes the prompts. Token ids alone need no tokenizer.
std::vector<Ids> prompts_of(const Options& o, const ModelFolder& folder) {
  std::vector<Ids> prompts;
  for (const std::string& list : o.prompt_ids) prompts.push_back(parse_ids(list));
  for (const std::string& text : texts_of(o)) {
    if (!folder.has_tokenizer())
      fail(ErrorCode::invalid_argument, "generate", folder.lack_of_tokenizer(), "; pass prompts as --prompt-ids");
    prompts.push_back(folder.tokenizer().encode_prompt(text));
    check(!prompts.back().empty(), "generate", "the prompt '", text, "' encodes to zero tokens");
  }
  check(!prompts.empty(), "generate", "no prompt; pass a text or --prompt-ids 1,2,3");
  return prompts;
}

GenerateOptions generate_options(const Options& o, const ModelFolder& folder, const std::vector<Ids>& prompts) {
  size_t longest = 0;
  for (const Ids& prompt : prompts) longest = std::max(longest, prompt.size());
  const int64_t room = std::max<int64_t>(0, folder.config().max_positions - int64_t(longest));
  const int64_t usual = folder.generation().max_new_tokens.value_or(kDefaultTokens);
  const auto& most = o.sampling.max_tokens;
  check(!most || *most >= 1, "generate", "--max-tokens is ", most.value_or(0), ", expected 1 or more");
  GenerateOptions options{.sampling = o.sampling.sampling(folder),
                          .max_tokens = most.value_or(std::min(std::max<int64_t>(1, usual), room)),
                          .ignore_eos = o.ignore_eos,
                          .stop = o.stop,
                          .log_probabilities = o.logprobs || o.top_logprobs > 0,
                          .top_log_probabilities = o.top_logprobs};
  if (o.batch) options.batch = *o.batch;
  return options;
}

// The text of one token for a message: escaped, in quotes.
std::string quoted(const ModelFolder& folder, int32_t id) {
  return nlohmann::json(folder.tokenizer().decode(std::vector<int32_t>{id})).dump();
}

std::string with_log_probabilities(std::string object, const Completion& c, const Options& o) {
  std::vector<float> values;
  std::string tops;
  for (const TokenLogProbability& token : c.log_probabilities) {
    values.push_back(token.value);
    std::string top;
    for (const IdLogProbability& t : token.top)
      top += join(top.empty() ? "" : ",", "{\"id\":", t.id, ",\"logprob\":", json_number(t.value), "}");
    tops += join(tops.empty() ? "" : ",", "[", top, "]");
  }
  object = with_member(std::move(object), "logprobs", json_list(values));
  object = with_member(std::move(object), "logprob_sum", json_number(sum_of(values)));
  return o.top_logprobs > 0 ? with_member(std::move(object), "top_logprobs", join("[", tops, "]")) : object;
}

void print_json(const std::vector<Completion>& completions, const std::vector<Ids>& prompts, bool has_text, double rate, const Options& o) {
  std::string all;
  for (size_t i = 0; i < completions.size(); ++i) {
    const Completion& c = completions[i];
    nlohmann::ordered_json object = {
        {"prompt_ids", prompts[i]}, {"ids", c.ids}, {"text", nullptr}, {"finish_reason", name(c.reason)}, {"tokens_per_second", rate}};
    if (has_text) object["text"] = c.text;
    const std::string text = object.dump();
    if (i > 0) all += ",";
    all += o.logprobs || o.top_logprobs > 0 ? with_log_probabilities(text, c, o) : text;
  }
  std::printf(completions.size() == 1 ? "%s\n" : "[%s]\n", all.c_str());
}

void print_times(const GenerateTimes& t) {
  std::printf("\n[%ld prompt tokens in %.2f s, %ld new tokens, %.1f tokens/s]\n", long(t.prompt_tokens), t.prompt_seconds,
              long(t.prompts + t.step_tokens), t.tokens_per_second());
}

// A line for a token: its log-probability, id and text; then the most likely tokens in the same form, indented.
std::string line_of(const TokenLogProbability& token, const ModelFolder& folder) {
  const auto one = [&](const IdLogProbability& t) {
    return join(shortest(t.value), "  ", t.id, folder.has_tokenizer() ? "  " + quoted(folder, t.id) : "", "\n");
  };
  std::string text = one(token);
  for (const IdLogProbability& t : token.top) text += "    " + one(t);
  return text;
}

// A single text streams token by token; several are printed in order, each when it and all before it are finished.
void stream(Generator& generator, const std::vector<Ids>& prompts, const ModelFolder& folder, std::optional<Waiting>& waits) {
  const bool has_text = folder.has_tokenizer();
  std::vector<std::string> waiting(prompts.size());
  std::vector<bool> done(prompts.size());
  size_t front = 0;
  bool first = true;
  const bool lines = generator.records_log_probabilities();
  const auto show = [&](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const auto title = [&] {
    if (prompts.size() > 1) show(join(front ? "\n\n" : "", "[", front + 1, "]", lines ? "\n" : " "));
  };
  generator.run(prompts, [&](const NewToken& token) {
    if (std::exchange(first, false)) {
      waits.reset();
      title();
    }
    const size_t i = size_t(token.prompt);
    if (token.log_probability)
      waiting[i] += line_of(*token.log_probability, folder);
    else
      waiting[i] += has_text ? std::string(token.text) : join(token.id, token.last ? "" : ",");
    done[i] = token.last;
    while (front < prompts.size()) {
      show(std::exchange(waiting[front], ""));
      if (!done[front] || ++front == prompts.size()) break;
      title();
    }
  });
  show("\n");
}

void check_options(const Options& o) {
  const bool other = !o.words.empty() || !o.prompts.empty() || !o.prompts_file.empty() || !o.prompt_ids.empty();
  check(o.top_logprobs >= 0, "generate", "--top-logprobs is ", o.top_logprobs, ", expected 0 or more");
  check(!o.chats() || !other, "generate", "--chat takes its prompts from conversations; do not pass others");
  check(o.chats() || !o.chat.given(), "generate",
        "--template, --template-file and --set apply to --chat alone: a prompt is continued as it is");
}

int run(const Options& o) {
  check_options(o);
  const auto device = open_device(o.device, {.threads = o.threads});
  const ModelFolder folder(o.folder, o.adapter, o.context);
  folder.config();  // first: its error says what a folder without a model is
  std::optional<ChatFormat> format;
  if (o.chats()) format = o.chat.format(folder.tokenizer_folder());
  o.sampling.tell(folder);
  std::optional<Waiting> waits(std::in_place, *device);
  const auto model =
      folder.load(*device, {.dtype = o.dtype.empty() ? std::optional<DType>() : dtype_from_name(o.dtype), .int8 = o.weights.int8()});
  const std::vector<Ids> prompts = format ? prompts_of(o, folder, *format) : prompts_of(o, folder);
  GenerateOptions options = generate_options(o, folder, prompts);
  if (format) options.eos_ids = end_of_turn_ids(folder, *format);
  Generator generator(*model, folder, options, o.special);
  if (o.json) {
    const auto completions = generator.run(prompts);
    waits.reset();
    print_json(completions, prompts, folder.has_tokenizer(), generator.times().tokens_per_second(), o);
  } else {
    stream(generator, prompts, folder, waits);
    print_times(generator.times());
  }
  return kOk;
}

}  // namespace

Run add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a model from a Hugging Face folder or a GGUF file");
  command->footer(
      "Samples as the folder's generation_config.json says if it sets do_sample, else decodes greedily; flags override it. A prompt is "
      "continued as it is; --chat applies the folder's chat template and answers a conversation. weft chat is interactive.");
  auto o = std::make_shared<Options>();
  command->add_option("model", o->folder, "Folder with config.json, model.safetensors and tokenizer.json, or a GGUF file")->required();
  command->add_option("text", o->words, "The prompt; several words form one prompt; without any prompt, standard input is read");
  command->add_option("--prompt", o->prompts, "A prompt; repeatable")->take_all()->expected(1)->allow_extra_args(false);
  command->add_option(
      "--prompts", o->prompts_file,
      "File with prompts: a text file is one prompt; each line of a .jsonl file or element of a .json file (its \"text\") is one");
  command->add_option("--prompt-ids", o->prompt_ids, "A prompt as token ids, such as 1,2,3; repeatable; needs no tokenizer")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option(
          "--chat", o->conversations,
          "File with a conversation to answer: a JSON list of {\"role\", \"content\"}, or an object with \"messages\"; a .jsonl file has "
          "one per line; - is standard input; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  o->chat.add_to(*command);
  command->add_option("--max-tokens,--max-new-tokens", o->sampling.max_tokens,
                      join("New tokens per prompt at most (default: as in generation_config.json, else ", kDefaultTokens,
                           "; limited by the context length)"));
  o->sampling.add_to(*command);
  command->add_option("--stop", o->stop, "Text that ends the continuation; repeatable")->take_all()->expected(1)->allow_extra_args(false);
  command->add_flag("--ignore-eos", o->ignore_eos, "Continue after an end-of-text token");
  command->add_flag("--special", o->special, "Show special tokens in the text");
  command->add_flag("--logprobs", o->logprobs,
                    "Print each new token on a line with its log-probability by the model's own logits, before penalties and temperature");
  command->add_option("--top-logprobs", o->top_logprobs, "Also those of the k most likely tokens at its place");
  command->add_option("--batch", o->batch, "Prompts decoded in one batch (default 4; changes no bits)");
  command->add_option("--adapter", o->adapter, "Folder with a LoRA adapter of the model (adapter_config.json, adapter_model.safetensors)");
  command->add_option("--device", o->device, "Device to run on")->capture_default_str();
  command->add_option("--context", o->context,
                      "Maximum tokens of a sequence (default: the model's context length); dynamic and longrope are computed from it");
  command->add_option("--dtype", o->dtype, "f32 or bf16 (default: as stored)")->check(CLI::IsMember({"f32", "bf16"}));
  o->weights.add_to(*command);
  command->add_option("--threads", o->threads, "CPU threads (default: all this process may use)");
  command->add_flag(
      "--json", o->json,
      "Print {\"prompt_ids\", \"ids\", \"text\", \"finish_reason\", \"tokens_per_second\"}, ids of new tokens only, with \"logprobs\" and "
      "\"top_logprobs\" if wanted; a list for several prompts");
  return [o] { return run(*o); };
}

}  // namespace weft::cli
