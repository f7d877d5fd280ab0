#include "weft/train/export.h"

#include "weft/io/atomic_file.h"
#include "weft/models/load.h"
#include "weft/train/phase.h"

namespace weft {
namespace {

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

void export_trained(const std::string& folder, const Model& model, const Vocabulary& vocabulary, const std::string& like) {
  const Phase phase(model.device());
  export_model(model, folder, {.like = like});
  if (!like.empty()) return;
  write_text(folder + "/tokenizer.json", vocabulary.tokenizer_json());
  write_text(folder + "/tokenizer_config.json", "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false\n}\n");
}

}  // namespace weft
