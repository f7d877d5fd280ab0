// tokenizer.json: the steps that turn tokens into text.
#include "weft/io/tokenizer/parts.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

Decoder::Step read_step(const JsonNode& step) {
  constexpr int64_t kMostStripped = 1000;
  const std::string type = step.at("type").text();
  if (type == "ByteLevel") return decode::ByteLevel{};
  if (type == "ByteFallback") return decode::ByteFallback{};
  if (type == "Fuse") return decode::Fuse{};
  if (type == "Replace") return read_replacement(step);
  if (type == "Strip")
    return decode::Strip{.content = utf8_step(read_mark(step.at("content"))).code,
                         .start = size_t(step.at("start").integer(0, kMostStripped)),
                         .stop = size_t(step.at("stop").integer(0, kMostStripped))};
  if (type == "Metaspace")
    return decode::Marks{.mark = read_mark(step.at("replacement")), .remove_first = read_prepend_scheme(step) != Metaspace::Prepend::never};
  step.unsupported("is the decoder '", shown(type),
                   "'; ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace and Sequence are supported");
}

}  // namespace

Decoder read_decoder(const JsonNode& root) {
  std::vector<Decoder::Step> steps;
  for (const JsonNode& step : steps_of(root.at("decoder"), "decoders")) steps.push_back(read_step(step));
  return Decoder(std::move(steps));
}

}  // namespace weft
