#include "weft/models/families/family.h"

#include <array>

namespace weft {

std::span<const Family* const> families() {
  static constexpr std::array kAll{&kLlamaFamily,   &kQwen2Family,    &kQwen3Family,   &kGpt2Family,  &kMistralFamily, &kMinistral3Family,
                                   &kGraniteFamily, &kSmolLm3Family,  &kOlmo2Family,   &kOlmo3Family, &kPhi3Family,    &kGemma2Family,
                                   &kGemma3Family,  &kQwen3MoeFamily, &kMixtralFamily, &kGptOssFamily};
  return kAll;
}

const Family& family_of(Architecture architecture) {
  for (const Family* family : families())
    if (family->architecture == architecture) return *family;
  fail(ErrorCode::invalid_argument, "config", "unknown architecture ", int(architecture));
}

}  // namespace weft
