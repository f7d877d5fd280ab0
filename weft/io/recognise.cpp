#include "weft/io/recognise.h"

#include <filesystem>

#include "weft/base/check.h"
#include "weft/io/is_there.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// PyTorch writes a zip archive; before version 1.6 it wrote a pickle that starts with a ten-byte magic number. Neither can
// start a safetensors file, except one whose header has exactly 67324752 bytes.
bool is_pytorch(std::string_view bytes) { return bytes.starts_with("PK\x03\x04") || bytes.starts_with("\x80\x02\x8a\x0a"); }

constexpr const char* kUseSafetensors =
    "which is not supported; use the model's Hugging Face folder with config.json and model.safetensors";

void refuse_run(const std::string& folder) {
  const fs::path run(folder), model = run / "model";
  if (!is_there(run / "config.toml") || !is_there(run / "checkpoints")) return;
  if (is_there(model / "config.json")) fail(ErrorCode::bad_file, folder, "is the folder of a training run; use ", model.string());
  fail(ErrorCode::bad_file, folder, "is the folder of an unfinished training run without a model; weft train --resume --out ", folder,
       " continues it");
}

// Refuses a folder of GGUF files: each file is a model by itself.
void refuse_gguf(const std::string& folder) {
  if (is_there(fs::path(folder) / "model.safetensors") || is_there(fs::path(folder) / "model.safetensors.index.json")) return;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".gguf")
      fail(ErrorCode::bad_file, folder, "is not a model folder, but has a GGUF file; use ", entry.path().string());
}

void refuse_adapter(const std::string& folder) {
  if (!is_there(fs::path(folder) / "adapter_config.json") || is_there(fs::path(folder) / "config.json")) return;
  fail(ErrorCode::bad_file, folder, "is the folder of an adapter; pass that of its model, and this one as --adapter");
}

}  // namespace

void refuse_other_formats(const std::string& path, std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs.github.com/spec/"))
    fail(ErrorCode::bad_file, path, "is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`");
  if (bytes.starts_with("GGUF")) fail(ErrorCode::bad_file, path, "is a GGUF file under another name; pass it as the model itself");
  if (is_pytorch(bytes)) fail(ErrorCode::unsupported, path, "is a PyTorch file, ", kUseSafetensors);
}

std::string expected_in_folder(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name;
  if (!is_there(path)) {
    refuse_run(folder);
    refuse_gguf(folder);
    refuse_adapter(folder);
  }
  return path.string();
}

std::string expected_in_adapter(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name, adapter = fs::path(folder) / "adapter";
  if (!is_there(path) && is_there(fs::path(folder) / "config.toml") && is_there(adapter / name))
    fail(ErrorCode::bad_file, folder, "is the folder of a training run; use ", adapter.string());
  return path.string();
}

void refuse_pytorch_weights(const std::string& folder) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (is_there(fs::path(folder) / name))
      fail(ErrorCode::unsupported, folder, "has its weights in ", name,
           ", which is not supported; transformers converts them to safetensors: ", "AutoModelForCausalLM.from_pretrained('", folder,
           "').save_pretrained('", folder, "', safe_serialization=True)");
}

}  // namespace weft
