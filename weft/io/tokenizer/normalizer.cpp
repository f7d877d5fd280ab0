#include "weft/io/tokenizer/normalizer.h"

#include <algorithm>

#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

void strip(const StripSpaces& step, Normalizer::Result& result) {
  std::string_view text = result.text;
  while (step.left && !text.empty()) {
    const Utf8Step first = utf8_step(text);
    if (!is_white_space(first.code)) break;
    text.remove_prefix(first.length);
    result.front_kept = false;
  }
  while (step.right && !text.empty()) {
    const std::string_view last = last_character(text, text.size());
    if (!is_white_space(utf8_step(last).code)) break;
    text.remove_suffix(last.size());
  }
  result.text = std::string(text);
}

}  // namespace

bool Normalizer::keeps(std::string_view text) const {
  const auto is_form = [](const NormalizerStep& step) { return std::holds_alternative<NormalForm>(step); };
  return steps_.empty() ||
         (std::ranges::all_of(steps_, is_form) && std::none_of(text.begin(), text.end(), [](char c) { return c & 0x80; }));
}

Normalizer::Result Normalizer::apply(std::string_view text, Regex::Scratch& scratch, bool continues) const {
  Result result{std::string(text)};
  for (const NormalizerStep& step : steps_) {
    if (const auto* form = std::get_if<NormalForm>(&step)) {
      result.text = normal_form(result.text, *form);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!result.text.empty() && !continues) result.text.insert(0, prepend->text);
    } else if (const auto* replacement = std::get_if<Replacement>(&step)) {
      std::string out;
      out.reserve(result.text.size() + result.text.size() / 2);
      if (!replacement->apply(result.text, scratch, out)) result.front_kept = false;
      result.text = std::move(out);
    } else {
      strip(std::get<StripSpaces>(step), result);
    }
  }
  return result;
}

std::string Normalizer::apply(std::string_view text) const {
  Regex::Scratch scratch;
  return apply(text, scratch).text;
}

}  // namespace weft
