// Text from a model folder, as it comes: generate FOLDER PROMPT
#include <cstdio>
#include <weft/weft.h>
using namespace weft;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: generate FOLDER PROMPT\n");
    return 2;
  }
  try {
    const auto device = open_device("cpu");
    const auto model = load_model(argv[1], *device);  // weights are mapped, not copied
    const Tokenizer tokenizer = Tokenizer::load(argv[1]);
    const auto bytes = [&](int32_t id) { return std::string(tokenizer.bytes_of(id)); };

    Generator generator(*model, {.sampling = {.temperature = 0.8, .top_p = 0.95, .seed = 1}, .max_tokens = 40, .stop = {"\n\n"}}, bytes);
    const auto completions = generator.run({tokenizer.encode(argv[2])}, [](const NewToken& token) {
      std::printf("%.*s", int(token.text.size()), token.text.data());  // whole characters only
      std::fflush(stdout);
    });
    std::printf("\n%zu tokens, %.1f a second, ended by %s\n", completions[0].ids.size(), generator.times().tokens_per_second(),
                std::string(name(completions[0].reason)).c_str());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
