// weft serve: OpenAI's API over HTTP for one model, and a chat page.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/chat_flags.h"
#include "cli/command.h"
#include "cli/stop_signals.h"
#include "cli/waiting.h"
#include "cli/weights_flag.h"
#include "weft/backends/open.h"
#include "weft/models/adapter.h"
#include "weft/serve/http_server.h"

namespace weft::cli {
namespace {

struct Options {
  std::string folder, device = "cpu", dtype, name;
  std::vector<std::string> adapters;  // as given: FOLDER or NAME=FOLDER
  WeightsFlag weights;
  serve::HttpOptions http;
  serve::SchedulerOptions scheduler;
  ChatFlags chat;
  int64_t max_body = int64_t(8) << 20, context = 0;
  int threads = 0, grace = 10;

  Options() { scheduler.engine.keep = true; }
};

constexpr int64_t kMostPositions = 8192;  // upper bound of the default: 128k positions would take gigabytes per sequence

void check_options(const Options& o) {
  check(o.http.port >= 0 && o.http.port <= 65535, "serve", "--port is ", o.http.port, ", expected 0 to 65535");
  check(o.scheduler.engine.sequences >= 1, "serve", "--sequences is ", o.scheduler.engine.sequences, ", expected 1 or more");
  check(o.scheduler.engine.positions >= 0, "serve", "--positions is ", o.scheduler.engine.positions, ", expected 0 or more");
  check(o.scheduler.engine.pool >= 0, "serve", "--pool is ", o.scheduler.engine.pool, ", expected 0 or more");
  check(o.scheduler.queue >= 0, "serve", "--queue is ", o.scheduler.queue, ", expected 0 or more");
  check(o.max_body >= 1, "serve", "--max-body is ", o.max_body, ", expected 1 or more");
  check(o.http.timeout > 0 && o.http.timeout <= 1e9, "serve", "--timeout is ", o.http.timeout, ", expected seconds above 0, at most 1e9");
  check(o.http.connections >= 1 && o.http.connections <= 10000, "serve", "--connections is ", o.http.connections, ", expected 1 to 10000");
  for (const auto& [flag, seconds] : {std::pair{"--idle", o.http.idle}, {"--stall", o.http.stall}, {"--grace", o.grace}})
    check(seconds >= 1 && seconds <= 86400, "serve", flag, " is ", seconds, ", expected 1 to 86400 seconds");
}

// Sets and checks --positions and --pool, given the model's context (--context, else the config's).
void set_positions(Options& o, const ModelConfig& config) {
  int64_t& positions = o.scheduler.engine.positions;
  const int64_t context = config.max_positions, pool = o.scheduler.engine.pool;
  check(positions <= context, "serve", "--positions is ", positions, ", the model's context is ", context,
        "; --context declares a longer one if the RoPE scaling allows it");
  if (positions == 0) positions = o.context ? context : std::min(context, kMostPositions);
  check(pool == 0 || pool >= positions, "serve", "--pool is ", pool, ", expected 0 or at least the tokens of one sequence, ", positions,
        " (--positions)");
}

// The last part of the path, the only one that clients see.
std::string base_name(const std::string& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

struct NamedFolder {
  std::string name, folder;
};

// --adapter: one FOLDER, which becomes part of the model, or several NAME=FOLDER. With a '/' before the '=' it is a FOLDER.
struct Adapters {
  std::string own;
  std::vector<NamedFolder> named;

  explicit Adapters(const std::vector<std::string>& given) {
    for (const std::string& one : given) {
      const size_t equals = one.find('=');
      if (equals != one.npos && equals > 0 && one.find('/') > equals)
        named.push_back({one.substr(0, equals), one.substr(equals + 1)});
      else
        own = one;
    }
    check(own.empty() || given.size() == 1, "serve", "--adapter ", own, " has no name; several adapters are given as NAME=FOLDER");
  }

  std::vector<std::string> add_to(Model& model, const std::string& base) const {
    for (const auto& [name, folder] : named) {
      check(name != base, "serve", "--adapter ", name, " has the name of the model");
      add_adapter(model, name, folder);
    }
    return model.named_adapters();
  }
};

std::optional<ChatFormat> format_of(const Options& o, const ModelFolder& folder) {
  if (!folder.has_tokenizer()) return {};
  if (o.chat.given()) return o.chat.format(folder.tokenizer_folder());
  return folder.tokenizer_folder().chat_format();
}

int run(Options o) {
  check_options(o);
  o.http.max_body = size_t(o.max_body);
  if (const char* key = std::getenv("WEFT_API_KEY"); key && o.http.api_key.empty()) o.http.api_key = key;
  const auto device = open_device(o.device, {.threads = o.threads});
  const Adapters adapters(o.adapters);
  const ModelFolder folder(o.folder, adapters.own, o.context);
  set_positions(o, folder.config());
  auto format = format_of(o, folder);
  const auto model = [&] {
    const Waiting waits(*device);
    return folder.load(*device, {.dtype = o.dtype.empty() ? std::optional<DType>() : dtype_from_name(o.dtype), .int8 = o.weights.int8()});
  }();
  const std::string name = o.name.empty() ? base_name(o.folder) : o.name;
  const std::vector<std::string> names = adapters.add_to(*model, name);
  serve::Metrics metrics;
  serve::Scheduler scheduler(*model, folder.has_tokenizer() ? &folder.tokenizer() : nullptr, o.scheduler, metrics);
  const bool chats = format.has_value();
  const serve::ServedModel served(folder, name, std::move(format), scheduler.positions(), {o.folder, adapters.own, o.chat.template_file},
                                  names);
  serve::HttpServer http(o.http, served, scheduler, metrics);
  const int port = http.bind();
  http.start();
  const StopSignals signals(
      [&] {
        http.stop();
        scheduler.finish();
      },
      [&] { scheduler.abandon(); }, o.grace);
  const bool v6 = o.http.host.find(':') != std::string::npos;
  std::printf("serving %s at http://%s:%d%s\n", served.name().c_str(), (v6 ? "[" + o.http.host + "]" : o.http.host).c_str(), port,
              chats ? "" : " (no chat template: completions only)");
  std::printf("%ld sequences at once, %ld tokens each at most\n", long(o.scheduler.engine.sequences), long(scheduler.positions()));
  std::fflush(stdout);
  scheduler.run();
  http.join();
  return kOk;
}

}  // namespace

Run add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP: OpenAI's API and a chat page");
  command->footer(
      "Endpoints: /v1/chat/completions, /v1/completions, /v1/models, /tokenize, /health, /metrics, and a chat page at / (docs/serve.md). "
      "An "
      "answer does not depend on other requests. Ctrl-C or SIGTERM finishes what runs and ends the server.");
  auto o = std::make_shared<Options>();
  command->add_option("model", o->folder, "Folder with config.json, model.safetensors and tokenizer.json, or a GGUF file")->required();
  command->add_option("--host", o->http.host, "Address to listen on; 0.0.0.0 is every network of this machine")->capture_default_str();
  command->add_option("--port", o->http.port, "Port to listen on; 0 is any free one, which is printed")->capture_default_str();
  command->add_option("--name", o->name, "Name of the model in answers (default: the folder's)");
  command->add_option("--sequences", o->scheduler.engine.sequences, "Sequences decoded as a batch")->capture_default_str();
  command->add_option("--positions", o->scheduler.engine.positions,
                      "Maximum tokens of a sequence with its prompt (default: --context, else the model's context, at most 8192)");
  command->add_option("--context", o->context,
                      "Declared context (default: the model's context length); dynamic and longrope are computed from it");
  command->add_option("--pool", o->scheduler.engine.pool,
                      "Tokens in the KV cache, over all sequences (default: --sequences x --positions)");
  command->add_option("--queue", o->scheduler.queue, "Requests that may wait in addition to --sequences; further ones are refused (429)")
      ->capture_default_str();
  command->add_option("--api-key", o->http.api_key, "Key that clients must send (default: $WEFT_API_KEY, else none)");
  command->add_option("--max-body", o->max_body, "Maximum bytes of a request's body")->capture_default_str();
  command->add_option("--timeout", o->http.timeout, "Maximum seconds of a request, in the queue and running")->capture_default_str();
  command->add_option("--connections", o->http.connections, "Maximum open connections; further ones are refused (503)")
      ->capture_default_str();
  command->add_option("--idle", o->http.idle, "Seconds until a connection without a request is closed")->capture_default_str();
  command->add_option("--stall", o->http.stall, "Seconds without a byte read or written until a connection with a request is closed")
      ->capture_default_str();
  command->add_option("--grace", o->grace, "Seconds that requests have to finish after Ctrl-C or SIGTERM")->capture_default_str();
  command->add_option("--template", o->chat.template_name, "Name of the chat template, if the folder has several");
  command->add_option("--template-file", o->chat.template_file, "File with a chat template (Jinja) to use instead of the folder's")
      ->check(CLI::ExistingFile);
  command
      ->add_option(
          "--adapter", o->adapters,
          "Folder with a LoRA adapter of the model (adapter_config.json, adapter_model.safetensors); NAME=FOLDER, repeatable, makes "
          "it a model of its own beside the base")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--device", o->device, "Device to run on")->capture_default_str();
  command->add_option("--dtype", o->dtype, "f32 or bf16 (default: as stored)")->check(CLI::IsMember({"f32", "bf16"}));
  o->weights.add_to(*command);
  command->add_option("--threads", o->threads, "CPU threads (default: all this process may use)");
  return [o] { return run(*o); };
}

}  // namespace weft::cli
