// Arbitrary bytes on a connection of the server: every answer is HTTP and contains no path of this machine. The model is real, so prompts
// are encoded and templates rendered; the scheduler is stopping, so nothing is computed.
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/fuzz/targets.h"
#include "weft/backends/open.h"
#include "weft/serve/http_server.h"

namespace weft::fuzz {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}";

struct World {
  const std::string path = WEFT_FUZZ_MODEL;
  const std::shared_ptr<Device> device = open_device("cpu", {.threads = 1});
  const ModelFolder folder{path};
  const std::unique_ptr<Model> model = folder.load(*device);
  serve::Metrics metrics;
  serve::Scheduler scheduler{*model, &folder.tokenizer(), {.engine = {.sequences = 1, .positions = 64}}, metrics};
  const serve::ServedModel served{
      folder, "model", ChatFormat::parse(kTemplate, folder.tokenizer_folder().special_tokens(), "the template"), 64, {path}};
  serve::HttpServer http{{.api_key = "", .max_body = 4096, .timeout = 5, .idle = 1, .stall = 1}, served, scheduler, metrics};

  World() { scheduler.finish(); }
};

std::string all_of(int socket) {
  std::string text;
  char part[4096];
  for (ssize_t count; (count = ::read(socket, part, sizeof part)) > 0;) text.append(part, size_t(count));
  return text;
}

}  // namespace

void serve_http(std::string_view bytes) {
  static World world;
  bytes = bytes.substr(0, 65536);  // fits into the socket's buffer
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
  const bool sent = ::write(ends[0], bytes.data(), bytes.size()) == ssize_t(bytes.size());
  ::shutdown(ends[0], SHUT_WR);
  std::string answer;
  std::thread reader([&] { answer = all_of(ends[0]); });
  world.http.serve(ends[1]);
  reader.join();
  ::close(ends[0]);
  require(sent, "the request was not sent");
  require(answer.empty() || answer.starts_with("HTTP/1.1 "), "no HTTP: " + answer.substr(0, 100));
  const bool told = bytes.find("golden") != bytes.npos;  // libFuzzer may guess the path, and errors repeat names in a request
  require(told || answer.find(world.path) == answer.npos, "a path of this machine: " + answer);
}

}  // namespace weft::fuzz
