// weft chat: a conversation with a model, typed in a terminal or piped in.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "cli/chat_commands.h"
#include "cli/chat_flags.h"
#include "cli/chat_input.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/sampling_flags.h"
#include "cli/style.h"
#include "cli/waiting.h"
#include "cli/weights_flag.h"
#include "weft/backends/open.h"
#include "weft/generate/chat_session.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::cli {
namespace {

struct Options {
  std::string folder, adapter, device = "cpu", dtype, system;
  WeightsFlag weights;
  SamplingFlags sampling;
  ChatFlags chat;
  std::vector<std::string> stop;
  int threads = 0;
  int64_t context = 0;
  bool verbose = false, no_history = false;
};

constexpr int64_t kDefaultTokens = 1024;

// Ends the work of a pass between two ops after Ctrl-C.
struct StopOnInterrupt : ProgressListener {
  void progress(const Work&) override {}
  void part() override {
    if (interrupted()) throw Stopped();
  }
};

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

class Chat {
 public:
  Chat(const Options& o, const Model& model, const ModelFolder& folder, ChatFormat format)
      : options_(o),
        sampling_(o.sampling),
        model_(model),
        folder_(folder),
        session_(model, folder, std::move(format)),
        typed_(::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)),
        style_{colours(STDERR_FILENO)},
        editor_(typed_, typed_ && !o.no_history ? history_file() : "", colours(STDOUT_FILENO)),
        input_(editor_),
        commands_(session_, sampling_, folder, [this](const std::string& text) { say(text); }) {
    o.chat.set_variables(session_.conversation());
    session_.set_system(o.system);
  }

  // The exit code: kUsage if a piped line was refused.
  int run() {
    if (typed_) {
      watch_signals();
      say(join("chatting with ", options_.folder, "; /help lists the commands, Ctrl-D ends"));
    }
    for (bool more = true; more;) {
      const Conversation before = session_.conversation();
      try {
        more = turn(before);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::device_fault) throw;
        session_.conversation() = before;
        std::fprintf(stderr, "%s\n", style_.red(join("weft: ", error.what())).c_str());
        refused_ = true;
      }
    }
    return refused_ && !typed_ ? kUsage : kOk;
  }

 private:
  void say(const std::string& text) const { std::fprintf(stderr, "%s\n", style_.dim(text).c_str()); }

  // One message or command; false at the end.
  bool turn(const Conversation& before) {
    const auto message = input_.next();
    if (!message) {
      if (typed_) write_out("\n");
      return false;
    }
    check_utf8(message->text, "the message");
    if (!message->block && message->text.starts_with('/') && !message->text.starts_with("//")) {
      const auto next = commands_.run(message->text);
      if (next == ChatCommands::Next::answer) answer(before);
      return next != ChatCommands::Next::end;
    }
    session_.conversation().add("user", std::string_view(message->text).substr(!message->block && message->text.starts_with("//")));
    answer(before);
    return true;
  }

  GenerateOptions generate_options() const {
    const int64_t usual = folder_.generation().max_new_tokens.value_or(kDefaultTokens);
    return {.sampling = sampling_.sampling(folder_),
            .max_tokens = sampling_.max_tokens.value_or(std::max<int64_t>(1, usual)),
            .stop = options_.stop,
            .stop_request = &interrupted()};
  }

  void answer(const Conversation& before) {
    StopOnInterrupt stop;
    const Listening listening(stop);
    std::optional<Waiting> waits(std::in_place, model_.device());
    size_t shown = 0;
    const ChatTurn turn = session_.answer(generate_options(), [&](const NewToken& token) {
      waits->progress.hide();
      write_out(token.text);
      shown += token.text.size();
    });
    waits->progress.hide();
    write_out(turn.completion.text.substr(shown) + "\n");
    tell(turn);
    if (turn.completion.ids.empty()) session_.conversation() = before;
    interrupted() = false;
  }

  void tell(const ChatTurn& t) const {
    if (t.dropped > 0)
      say(join("[the context of ", model_.config().max_positions, " tokens is full: the oldest ", t.dropped,
               " messages are no longer shown to the model]"));
    if (t.completion.reason == FinishReason::stopped)
      say(t.completion.ids.empty() ? "[stopped before the first token; the message is not kept]"
                                   : "[stopped; the part above stays in the conversation]");
    if (t.completion.reason == FinishReason::length)
      say(join("[cut after ", t.completion.ids.size(), " tokens",
               t.prompt_tokens + int64_t(t.completion.ids.size()) >= model_.config().max_positions ? ": the context is full]"
                                                                                                   : "; /set max-tokens N allows more]"));
    if (options_.verbose) {
      char text[200];
      std::snprintf(text, sizeof text, "[prompt of %ld tokens: %ld reused, %ld computed in %.2f s; %zu new tokens, %.1f tokens/s]",
                    long(t.prompt_tokens), long(t.reused), long(t.times.prompt_tokens), t.times.prompt_seconds, t.completion.ids.size(),
                    t.times.tokens_per_second());
      say(text);
    }
  }

  const Options& options_;
  SamplingFlags sampling_;
  const Model& model_;
  const ModelFolder& folder_;
  ChatSession session_;
  const bool typed_;
  const Style style_;
  LineEditor editor_;
  ChatInput input_;
  ChatCommands commands_;
  bool refused_ = false;
};

int run(const Options& o) {
  const auto device = open_device(o.device, {.threads = o.threads});
  const ModelFolder folder(o.folder, o.adapter, o.context);
  folder.config();  // first: its error says what a folder without a model is
  if (!folder.has_tokenizer()) fail(ErrorCode::invalid_argument, "chat", folder.lack_of_tokenizer());
  check(o.sampling.max_tokens.value_or(1) >= 1, "chat", "--max-tokens is ", o.sampling.max_tokens.value_or(0), ", expected 1 or more");
  validate(o.sampling.sampling(folder));
  ChatFormat format = o.chat.format(folder.tokenizer_folder());
  o.sampling.tell(folder);
  const auto model = [&] {
    const Waiting waits(*device);
    return folder.load(*device, {.dtype = o.dtype.empty() ? std::optional<DType>() : dtype_from_name(o.dtype), .int8 = o.weights.int8()});
  }();
  return Chat(o, *model, folder, std::move(format)).run();
}

}  // namespace

Run add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with a model from a Hugging Face folder that has a chat template");
  command->footer("Commands of the chat:\n" + ChatCommands::help() +
                  "\nPiped lines are answered one after another, without prompt and colour; notices go to stderr." +
                  (LineEditor::kEdits ? "" : "\nThis build edits no lines: it was made without libedit."));
  auto o = std::make_shared<Options>();
  command->add_option("model", o->folder, "Folder with config.json, model.safetensors, tokenizer.json and a chat template, or a GGUF file")
      ->required();
  command->add_option("--system", o->system, "System message");
  command->add_option(
      "--max-tokens,--max-new-tokens", o->sampling.max_tokens,
      join("Tokens per answer at most (default: as in generation_config.json, else ", kDefaultTokens, "; limited by the context length)"));
  o->sampling.add_to(*command);
  o->chat.add_to(*command);
  command->add_option("--stop", o->stop, "Text that ends an answer; repeatable")->take_all()->expected(1)->allow_extra_args(false);
  command->add_option("--adapter", o->adapter, "Folder with a LoRA adapter of the model (adapter_config.json, adapter_model.safetensors)");
  command->add_option("--device", o->device, "Device to run on")->capture_default_str();
  command->add_option("--context", o->context,
                      "Maximum tokens of a sequence (default: the model's context length); dynamic and longrope are computed from it");
  command->add_option("--dtype", o->dtype, "f32 or bf16 (default: as stored)")->check(CLI::IsMember({"f32", "bf16"}));
  o->weights.add_to(*command);
  command->add_option("--threads", o->threads, "CPU threads (default: all this process may use)");
  command->add_flag("--verbose", o->verbose, "Show for every answer how many tokens were reused from the cache and computed, and the rate");
  command->add_flag("--no-history", o->no_history, "Do not keep the lines typed for later chats");
  return [o] { return run(*o); };
}

}  // namespace weft::cli
