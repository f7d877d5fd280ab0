// A conversation with a model folder, whose cache is kept between turns.  chat FOLDER MESSAGE...
#include <cstdio>
#include <weft/weft.h>
using namespace weft;

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: chat FOLDER MESSAGE...\n");
    return 2;
  }
  try {
    const auto device = open_device("cpu");
    const ModelFolder folder(argv[1]);
    const auto model = folder.load(*device);

    // The folder's template, or ChatML for one that has none.
    auto format = folder.tokenizer_folder().chat_format();
    if (!format) format = ChatFormat::parse(chat_template("chatml").text);
    ChatSession chat(*model, folder, *format);
    chat.set_system("Be brief.");

    for (int i = 2; i < argc; ++i) {
      chat.conversation().add("user", argv[i]);
      std::printf("> %s\n", argv[i]);
      const ChatTurn turn = chat.answer({.max_tokens = 20}, [](const NewToken& token) {
        std::printf("%.*s", int(token.text.size()), token.text.data());  // whole characters only
        std::fflush(stdout);
      });
      std::printf("\n[%lld of %lld prompt tokens reused]\n", (long long)turn.reused, (long long)turn.prompt_tokens);
    }

    // The ids of the conversation, and which of them the assistant said, as a trainer would mask them.
    const ChatFormat::Encoded seen = format->encode(chat.conversation(), folder.tokenizer(), /*add_generation_prompt=*/false);
    long long said = 0;
    for (const uint8_t mark : seen.generated) said += mark;
    std::printf("%zu tokens in all, %lld of them said by the assistant\n", seen.ids.size(), said);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
