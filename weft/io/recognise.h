// Recognises files and folders of other formats by their first bytes and names, so that the error says what they are and what to do
// instead of where a parser stopped.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Throws, naming `path`, if its first bytes are those of a Git LFS pointer or of a GGUF file (bad_file), or of a PyTorch file
// (unsupported). Readers of other formats call it before parsing.
void refuse_other_formats(const std::string& path, std::string_view bytes);

// The path of `name` in `folder`. Throws bad_file if the folder lacks it and is the folder of a training run or of GGUF files. If it is
// missing for another reason, opening it fails later.
std::string expected_in_folder(const std::string& folder, const std::string& name);

// Throws (unsupported) if the folder's weights are PyTorch files; the message says how to convert them.
void refuse_pytorch_weights(const std::string& folder);

}  // namespace weft
