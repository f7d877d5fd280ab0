#include "weft/data/tokenizer_json.h"

namespace weft {

OrderedJson added_token(size_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

OrderedJson byte_level_part(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

std::string tokenizer_json(const TokenizerParts& parts) {
  const OrderedJson model = {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", parts.vocab},
                             {"merges", parts.merges}};
  const OrderedJson all = {{"version", "1.0"},
                           {"truncation", nullptr},
                           {"padding", nullptr},
                           {"added_tokens", parts.added},
                           {"normalizer", nullptr},
                           {"pre_tokenizer", parts.pre_tokenizer},
                           {"post_processor", parts.post_processor},
                           {"decoder", parts.decoder},
                           {"model", model}};
  return all.dump(1) + "\n";
}

}  // namespace weft
