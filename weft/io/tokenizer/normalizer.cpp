#include "weft/io/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "weft/base/check.h"

namespace weft {
namespace {

int options_of(NormalForm form) {
  switch (form) {
    case NormalForm::nfc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalForm::nfd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalForm::nfkc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::nfkd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

std::string normalised(std::string_view text, NormalForm form) {
  utf8proc_uint8_t* memory = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), utf8proc_ssize_t(text.size()), &memory,
                                   utf8proc_option_t(options_of(form)));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(memory, std::free);
  if (length < 0) fail(ErrorCode::invalid_argument, "tokenizer", "the text cannot be normalised: ", utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(memory), size_t(length)};
}

}  // namespace

bool Normalizer::keeps(std::string_view text) const {
  return forms_.empty() || std::none_of(text.begin(), text.end(), [](char c) { return c & 0x80; });
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (NormalForm form : forms_) out = normalised(out, form);
  return out;
}

}  // namespace weft
