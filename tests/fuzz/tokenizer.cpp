// Any bytes as a tokenizer.json: refused with one error, or it encodes and decodes.
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/io/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  constexpr const char* kText = "Hello  wörld 123, it's\n\n<s> e\u0301 \xf0\x9f\x98\x80 [X]\tabc";
  try {
    const Tokenizer tokenizer = Tokenizer::parse({reinterpret_cast<const char*>(data), size});
    const auto ids = tokenizer.encode(kText);
    for (const int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    StreamingDecoder stream(tokenizer);
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    if (text + stream.finish() != tokenizer.decode(ids)) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file && error.code() != ErrorCode::unsupported) std::abort();
  }
  return 0;
}
