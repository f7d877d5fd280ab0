// Arbitrary bytes as a GGUF file: either rejected with one error, or every value, tensor and setting can be read.
#include "weft/io/gguf.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.h"
#include "weft/io/tokenizer/tokenizer.h"
#include "weft/models/gguf_config.h"
#include "weft/models/gguf_tokenizer.h"

namespace weft::fuzz {
namespace {

template <class Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require_file_error(error);
  }
}

void read_all(const Gguf& file) {
  for (const auto& [key, value] : file.metadata())
    require(!file.shown_value(value).empty() || value.bytes.empty(), "a value of '" + key + "' has no text");
  for (const auto& [name, entry] : file.tensors()) {
    require(entry.type->bytes_of(entry.shape.numel()) == int64_t(entry.bytes.size()), "the bytes of '" + name + "' do not fill its shape");
    std::vector<float> values(size_t(entry.shape.numel()));
    if (entry.type->loadable) to_floats(*entry.type, entry.bytes, values);
  }
}

}  // namespace

void gguf(std::string_view bytes) {
  static const std::string path = (std::filesystem::temp_directory_path() / ("weft_fuzz_" + std::to_string(::getpid()) + ".gguf")).string();
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  require(bool(out), path + " cannot be written");
  read_or_refuse([] {
    const Gguf file(path);
    read_all(file);
    read_or_refuse([&] { gguf_model_config(file); });
    read_or_refuse([&] { gguf_generation_config(file); });
    read_or_refuse([&] {
      const GgufTokenizer found = read_gguf_tokenizer(file);
      Tokenizer::parse(found.json, path, found.config).encode("Hello wörld 12", true, Tokenizer::Unknown::left_out);
    });
  });
  std::filesystem::remove(path);
}

}  // namespace weft::fuzz
