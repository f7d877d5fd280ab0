#include "weft/train/export.h"

#include "weft/io/atomic_file.h"
#include "weft/models/adapter.h"
#include "weft/models/load.h"
#include "weft/train/phase.h"

namespace weft {

void export_trained(const std::string& folder, const Model& model, const Vocabulary& vocabulary, const std::string& like) {
  const Phase phase(model.device());
  export_model(model, folder, {.like = like});
  vocabulary.write_files(folder);
}

void export_adapter(const std::string& folder, const Model& model, const std::string& base, const Vocabulary& vocabulary,
                    bool own_tokenizer) {
  save_adapter(model, folder, base);
  if (!own_tokenizer) return;
  vocabulary.write_files(folder);
  AtomicFile generation(folder + "/generation_config.json");
  generation.write(generation_config_json("", model.config()));
  generation.commit();
}

}  // namespace weft
