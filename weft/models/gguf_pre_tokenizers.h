// The pre-tokenizers of byte-level BPE that llama.cpp has by name (tokenizer.ggml.pre), as steps of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>

#include "weft/io/json.h"

namespace weft {

struct GgufPreTokenizer {
  const char* name;
  const char* aliases;   // other names of the same steps, separated by spaces
  bool digits;           // splits digits one by one, before the pattern
  const char* pattern;   // of a Split step; nullptr: the pattern of ByteLevel
  bool ignore_merges;    // a word in the vocabulary is one token
  bool nfc;              // these models have an NFC normalizer; llama.cpp does not normalise
  bool begins_with_bos;  // default of tokenizer.ggml.add_bos_token
};

// llama.cpp's pre-tokenizer for a tokenizer.json. Throws unsupported, with the step, if none splits texts in the same way.
const GgufPreTokenizer& gguf_pre_tokenizer(const JsonNode& root);
// The pre-tokenizer of this name, or nullptr.
const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name);
std::string gguf_pre_tokenizer_names();

// The members "normalizer" and "pre_tokenizer" of a tokenizer.json.
nlohmann::ordered_json normalizer_json(const GgufPreTokenizer& kind);
nlohmann::ordered_json pre_tokenizer_json(const GgufPreTokenizer& kind);

}  // namespace weft
