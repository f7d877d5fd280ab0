// Runs every file of every fuzz corpus through its target, without libFuzzer: the plain test suite finds a target that its own seeds break.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/fuzz/targets.h"
#include "tests/unit/observed.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, void (*)(std::string_view)> kTargets = {
    {"chat_template", fuzz::chat_template}, {"config", fuzz::config},      {"gguf", fuzz::gguf}, {"safetensors", fuzz::safetensors},
#ifdef WEFT_HAS_SERVE
    {"serve_http", fuzz::serve_http},
#else
    {"serve_http", [](std::string_view) {}},
#endif
    {"serve_request", fuzz::serve_request}, {"tokenizer", fuzz::tokenizer}};

TEST(FuzzCorpus, every_seed_passes_through_its_target) {
  for (const auto& [name, target] : kTargets) {
    int seeds = 0;
    for (const auto& file : fs::directory_iterator(fs::path(WEFT_FUZZ_CORPUS) / name)) {
      EXPECT_NO_THROW(target(contents(file.path()))) << file.path();
      ++seeds;
    }
    EXPECT_GT(seeds, 0) << name;
  }
}

TEST(FuzzCorpus, every_corpus_has_a_target) {
  for (const auto& folder : fs::directory_iterator(WEFT_FUZZ_CORPUS))
    EXPECT_TRUE(kTargets.contains(folder.path().filename().string())) << folder.path();
}

// An empty file and a file of another format are rejected by an error that the targets accept.
TEST(FuzzCorpus, targets_accept_a_rejection) {
  for (const auto& [name, target] : kTargets)
    for (const std::string& bytes : {std::string(), std::string("GGUF\x03"), std::string("{"), std::string(100, '\0')})
      EXPECT_NO_THROW(target(bytes)) << name;
}

}  // namespace
}  // namespace weft
