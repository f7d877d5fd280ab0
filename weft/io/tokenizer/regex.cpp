#include "weft/io/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "weft/base/check.h"

namespace weft {

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string where;
  ~Code() { pcre2_code_free(code); }
};

struct Regex::Scratch::State {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t(32) << 10, size_t(16) << 20, nullptr);
  State() {
    if (!match || !context || !stack) throw std::bad_alloc();
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, 64 << 10);  // KiB
  }
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Regex::Scratch::Scratch() : state_(std::make_unique<State>()) {}
Regex::Scratch::~Scratch() = default;
Regex::Scratch::Scratch(Scratch&&) noexcept = default;
Regex::Scratch& Regex::Scratch::operator=(Scratch&&) noexcept = default;

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

namespace {

constexpr size_t kLongestPattern = 10'000;

// Backtracking limit per match: enough to give back a run as long as the text (\s*[\r\n]+ before spaces alone), too little for a
// pattern whose backtracking grows faster than that.
uint32_t match_limit(size_t bytes) { return uint32_t(std::min<size_t>(1'000'000 + 8 * bytes, UINT32_MAX)); }

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(error, text, sizeof text) > 0 ? reinterpret_cast<const char*>(text) : "unknown error";
}

pcre2_code* compile(const std::string& where, std::string_view pattern, uint32_t options) {
  if (pattern.empty()) fail(ErrorCode::bad_file, where, "is an empty pattern");
  if (pattern.size() > kLongestPattern)
    fail(ErrorCode::bad_file, where, "is a pattern of ", pattern.size(), " bytes, the limit is ", kLongestPattern);
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, 50);
  int error = 0;
  size_t offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (!code) fail(ErrorCode::bad_file, where, "is not a valid pattern: ", message_of(error), " at byte ", offset);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // interpreted on machines without a JIT
  return code;
}

}  // namespace

Regex Regex::from_pattern(const std::string& where, std::string_view pattern) {
  auto code = std::make_unique<Code>();
  code->where = where;
  code->code = compile(where, translated_pattern(where, pattern), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
  return Regex(std::move(code));
}

Regex Regex::from_literal(const std::string& where, std::string_view text) {
  auto code = std::make_unique<Code>();
  code->where = where;
  code->code = compile(where, text, PCRE2_UTF | PCRE2_LITERAL);
  return Regex(std::move(code));
}

std::optional<Match> Regex::find(std::string_view text, size_t from, Scratch& scratch) const {
  pcre2_set_match_limit(scratch.state_->context, match_limit(text.size()));
  const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK,
                                scratch.state_->match, scratch.state_->context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) fail(ErrorCode::unsupported, code_->where, "cannot be matched against this text: ", message_of(found));
  const size_t* ends = pcre2_get_ovector_pointer(scratch.state_->match);
  // \K in a lookahead can put the start of a match past its end, or before `from`.
  if (ends[0] > ends[1] || ends[0] < from) fail(ErrorCode::unsupported, code_->where, "is a pattern whose matches end before they start");
  return Match{ends[0], ends[1]};
}

}  // namespace weft
