#include "weft/train/export.h"

#include "weft/io/atomic_files.h"
#include "weft/models/adapter.h"
#include "weft/models/load.h"
#include "weft/train/phase.h"

namespace weft {

void export_trained(const std::string& folder, const Model& model, const Vocabulary& vocabulary, const std::string& like) {
  const Phase phase(model.device());
  export_model(model, folder, {.like = like, .tokenizer_files = vocabulary.files()});
}

void export_adapter(const std::string& folder, const Model& model, const std::string& base, const Vocabulary& vocabulary,
                    bool own_tokenizer) {
  if (!own_tokenizer) return save_adapter(model, folder, base);
  const TokenizerFiles tokenizer = vocabulary.files();
  AtomicFiles files;
  add_adapter_files(model, folder, base, files);
  add_tokenizer(tokenizer, folder, files);
  files.add(folder + "/generation_config.json", generation_config_json("", model.config()));
  files.commit();
  remove_other_tokenizer(tokenizer, folder);
}

}  // namespace weft
