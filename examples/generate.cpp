// Text from a Hugging Face model folder, printed as it is generated.  generate FOLDER PROMPT
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
    const ModelFolder folder(argv[1]);        // config.json, *.safetensors, tokenizer.json
    const auto model = folder.load(*device);  // weights are mapped, not copied

    // The folder knows which tokens end a text and which are special.
    Generator generator(*model, folder, {.sampling = {.temperature = 0.8, .top_p = 0.95, .seed = 1}, .max_tokens = 40, .stop = {"\n\n"}});
    const auto completions = generator.run({folder.tokenizer().encode_prompt(argv[2])}, [](const NewToken& token) {
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
