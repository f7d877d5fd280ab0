// The pre-tokenizers of byte-level BPE that llama.cpp knows by name (tokenizer.ggml.pre), as steps of tokenizer.json.
#pragma once

#include <string>
#include <string_view>

#include "weft/io/json.h"

namespace weft {

struct GgufPreTokenizer {
  const char* name;
  const char* aliases;   // other names of the same steps, between spaces
  bool digits;           // each digit is a word, before the pattern
  const char* pattern;   // of a Split; nullptr: that of ByteLevel
  bool ignore_merges;    // a word in the vocabulary is one token
  bool nfc;              // the normalizer of the models that have it; llama.cpp itself does not normalise
  bool begins_with_bos;  // unless tokenizer.ggml.add_bos_token says otherwise
};

// The pre-tokenizer of a tokenizer.json. Throws unsupported, naming the step, if llama.cpp has none that splits a text in the same way.
const GgufPreTokenizer& gguf_pre_tokenizer(const JsonNode& root);
// By name; nullptr: unknown here.
const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name);
std::string gguf_pre_tokenizer_names();

// The members "normalizer" and "pre_tokenizer" of a tokenizer.json.
nlohmann::ordered_json normalizer_json(const GgufPreTokenizer& kind);
nlohmann::ordered_json pre_tokenizer_json(const GgufPreTokenizer& kind);

}  // namespace weft
