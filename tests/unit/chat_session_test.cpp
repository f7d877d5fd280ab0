// A chat with a small random model: the cache between turns, a context that is full, and what ends an answer.
#include "weft/generate/chat_session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/test_device.h"
#include "weft/backends/open.h"
#include "weft/data/chat_vocabulary.h"
#include "weft/models/load.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

// A folder with a model of 192 positions on bytes and ChatML.
class ChatSessionTest : public testing::Test {
 protected:
  ChatSessionTest() : device(open_device(test_device(), {.threads = 2})) { make_folder(byte_vocabulary()); }

  void make_folder(std::unique_ptr<Vocabulary> base) {
    const auto vocabulary = chat_vocabulary(std::move(base), chat_template("chatml"));
    ModelConfig c = preset("llama-tiny");
    c.hidden_size = 48, c.layers = 2, c.heads = 4, c.kv_heads = 2, c.head_dim = 12, c.intermediate_size = 96;
    c.vocab_size = vocabulary->size();
    c.max_positions = 192;
    c.initializer_range = 0.3;
    c.eos_ids = {vocabulary->special_ids().eos_ids.front()};
    export_model(*make_model(c, *device, 3), path.string());
    vocabulary->write_files(path.string());
    folder.emplace(path.string());
    model = folder->load(*device);
    format = ChatFormat::load(path.string());
  }
  ~ChatSessionTest() override { fs::remove_all(path); }

  const fs::path path = fs::temp_directory_path() / ("weft_chat_session_" + std::to_string(::getpid()));
  std::shared_ptr<Device> device;
  std::optional<ModelFolder> folder;
  std::unique_ptr<Model> model;
  std::optional<ChatFormat> format;
};

TEST_F(ChatSessionTest, TurnsReuseTheCacheAndAnswerAsANewOne) {
  WEFT_CPU_PROMISE();
  ChatSession chat(*model, *folder, *format);
  chat.set_system("Be brief.");
  for (int turn = 0; turn < 3; ++turn) {
    chat.conversation().add("user", "Hello");
    Conversation now = chat.conversation();
    const ChatTurn t = chat.answer({.max_tokens = 8});
    ChatSession fresh(*model, *folder, *format);
    fresh.restart(std::move(now));
    EXPECT_EQ(fresh.answer({.max_tokens = 8}).completion.ids, t.completion.ids) << turn;
    EXPECT_EQ(t.reused > 0, turn > 0);
    EXPECT_EQ(t.reused + t.times.prompt_tokens, t.prompt_tokens);
    EXPECT_EQ(t.dropped, 0);
    EXPECT_EQ(chat.conversation().role(chat.conversation().size() - 1), "assistant");
  }
}

TEST_F(ChatSessionTest, AFullContextDropsTheOldestTurns) {
  ChatSession chat(*model, *folder, *format);
  chat.set_system("S");
  int64_t dropped = 0;
  for (int turn = 0; turn < 12; ++turn) {
    chat.conversation().add("user", std::string(20, 'a'));
    const ChatTurn t = chat.answer({.max_tokens = 4});
    EXPECT_LE(t.prompt_tokens + 4, 192);
    EXPECT_EQ(t.dropped % 2, 0);  // whole turns
    EXPECT_TRUE(t.dropped == 0 || t.prompt_tokens <= 96) << t.prompt_tokens;
    dropped += t.dropped;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(chat.conversation().size(), 25u);  // all are kept
  EXPECT_EQ(chat.system(), "S");
}

TEST_F(ChatSessionTest, AMessageThatDoesNotFitIsRefused) {
  ChatSession chat(*model, *folder, *format);
  chat.conversation().add("user", "short");
  chat.answer({.max_tokens = 4});
  chat.conversation().add("user", std::string(190, 'a'));
  try {
    chat.answer({.max_tokens = 4});
    FAIL() << "a message longer than the context was answered";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("does not fit"), std::string::npos) << error.what();
  }
  EXPECT_EQ(chat.conversation().size(), 3u);
  chat.conversation().pop_back();
  chat.conversation().add("user", "short again");
  EXPECT_EQ(chat.answer({.max_tokens = 4}).dropped, 0);  // nothing was dropped for the message that was refused
}

TEST_F(ChatSessionTest, AnAnswerIsCutToWhatFits) {
  ChatSession chat(*model, *folder, *format);
  chat.conversation().add("user", std::string(150, 'a'));
  const ChatTurn t = chat.answer({.max_tokens = 1000, .ignore_eos = true});
  EXPECT_EQ(t.prompt_tokens + int64_t(t.completion.ids.size()), 192);
  EXPECT_EQ(t.completion.reason, FinishReason::length);
}

TEST_F(ChatSessionTest, TheTokenAfterAnAnswerEndsIt) {
  EXPECT_EQ(end_of_turn_ids(*folder, *format), (Ids{258}));
  const ChatFormat other = ChatFormat::parse("{% for m in messages %}{{ m.content }} <|endoftext|>{% endfor %}");
  EXPECT_EQ(end_of_turn_ids(*folder, other), (Ids{258, 256}));
  const ChatFormat none = ChatFormat::parse("{{ raise_exception('no') }}");
  EXPECT_EQ(end_of_turn_ids(*folder, none), (Ids{258}));
}

// Tokenizers whose words begin with a space: an answer begins without it, in what is shown and in the conversation.
TEST_F(ChatSessionTest, AnAnswerIsDecodedAlone) {
  for (const char* family : {"/llama2", "/metaspace", "/mistral"}) {
    make_folder(tokenizer_vocabulary(std::string(WEFT_GOLDEN_TOKENIZERS) + family));
    ChatSession chat(*model, *folder, *format);
    int with_space = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Conversation conversation;
      conversation.add("user", "a");
      chat.restart(std::move(conversation));
      std::string shown;
      const ChatTurn t =
          chat.answer({.sampling = {.temperature = 2, .seed = seed}, .max_tokens = 4}, [&](const NewToken& token) { shown += token.text; });
      const std::string alone = folder->tokenizer().decode(t.completion.ids, true);
      EXPECT_EQ(chat.conversation().content(1), alone) << family;
      if (alone.find("\uFFFD") != alone.npos) continue;  // shown byte by byte
      EXPECT_EQ(shown, alone) << family;
      EXPECT_EQ(t.completion.text, alone) << family;
      ChatSession stopped(*model, *folder, *format);  // by the first space that is shown
      stopped.conversation().add("user", "a");
      const ChatTurn cut = stopped.answer({.sampling = {.temperature = 2, .seed = seed}, .max_tokens = 4, .stop = {" "}});
      EXPECT_EQ(cut.completion.text, alone.substr(0, alone.find(' '))) << family;
      with_space += folder->tokenizer().bytes_of(t.completion.ids[0]).starts_with(' ');
    }
    EXPECT_GT(with_space, 0) << family;
  }
}

TEST_F(ChatSessionTest, AnswersAgainHaveOtherDraws) {
  ChatSession chat(*model, *folder, *format);
  const GenerateOptions options{.sampling = {.temperature = 1, .seed = 5}, .max_tokens = 12};
  const auto again = [&](GenerateOptions o) {
    if (chat.conversation().size() > 1) chat.conversation().pop_back();
    return chat.answer(o).completion.ids;
  };
  chat.conversation().add("user", "Hello");
  const Ids first = again(options), second = again(options);
  EXPECT_NE(first, second);
  GenerateOptions other = options;
  other.sampling.seed = 6;
  EXPECT_NE(again(other), first);
  EXPECT_EQ(again(options), first);  // a seed that is set again starts over
}

TEST_F(ChatSessionTest, AStopBeforeTheFirstTokenAddsNothing) {
  std::atomic<bool> stop = false;
  ChatSession chat(*model, *folder, *format);
  chat.conversation().add("user", "Hello");
  const ChatTurn cut = chat.answer({.max_tokens = 50, .ignore_eos = true, .stop_request = &stop}, [&](const NewToken&) { stop = true; });
  EXPECT_EQ(cut.completion.reason, FinishReason::stopped);
  EXPECT_EQ(cut.completion.ids.size(), 1u);
  EXPECT_EQ(chat.conversation().size(), 2u);
  EXPECT_THROW(ChatSession(*model, *folder, *format).answer({}), Error);  // no message
}

}  // namespace
}  // namespace weft
