#include "weft/io/tokenizer/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/io/tokenizer/utf8.h"

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

// The `tokenizers` library has the tables of Unicode 9. These characters are newer: there none of them decomposes, composes or is
// reordered, so each is kept and the text on either side of it is normalised separately.
constexpr std::pair<char32_t, char32_t> kYounger[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},     {0xd3b, 0xd3c},
    {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},
    {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x10781, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193d, 0x1193e},
    {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
    {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
};

bool is_younger(char32_t code) {
  const auto* range =
      std::upper_bound(std::begin(kYounger), std::end(kYounger), code, [](char32_t c, const auto& r) { return c < r.first; });
  return range != std::begin(kYounger) && code <= std::prev(range)->second;
}

using CodePoints = std::vector<utf8proc_int32_t>;

void append_decomposed(char32_t code, int options, CodePoints& to) {
  constexpr size_t kLongest = 32;  // no character has more than 18
  const size_t size = to.size();
  to.resize(size + kLongest);
  int ignored = 0;
  const auto count =
      utf8proc_decompose_char(utf8proc_int32_t(code), &to[size], utf8proc_ssize_t(kLongest), utf8proc_option_t(options), &ignored);
  check(count >= 0 && size_t(count) <= kLongest, "tokenizer", "the text cannot be normalised: ", utf8proc_errmsg(count));
  to.resize(size + size_t(count));
}

// The canonical order: marks between characters of class 0 by their classes. utf8proc's own takes the square of their number.
void order_marks(CodePoints& text) {
  const auto mark_class = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t code) { return mark_class(code) != 0; };
  for (auto first = std::ranges::find_if(text, is_mark); first != text.end();) {
    const auto last = std::find_if_not(first, text.end(), is_mark);
    std::ranges::stable_sort(first, last, {}, mark_class);
    first = std::find_if(last, text.end(), is_mark);
  }
}

std::string mapped(std::string_view text, NormalForm form) {
  const int options = options_of(form);
  CodePoints codes;
  codes.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    append_decomposed(step.code, options, codes);
    at += step.length;
  }
  order_marks(codes);
  const auto count = utf8proc_ssize_t(codes.size());
  codes.push_back(0);  // utf8proc writes the UTF-8 over the code points, and a zero
  const auto length = utf8proc_reencode(codes.data(), count, utf8proc_option_t(options));
  check(length >= 0, "tokenizer", "the text cannot be normalised: ", utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(codes.data()), size_t(length)};
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (is_younger(step.code)) {
      out += mapped(text.substr(done, at - done), form);
      out += text.substr(at, step.length);
      done = at + step.length;
    }
    at += step.length;
  }
  return out + mapped(text.substr(done), form);
}

}  // namespace weft
