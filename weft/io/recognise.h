// Recognises files and folders of other formats by their first bytes and names, so that the error says what they are and what to do
// instead of where a parser stopped.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Throws an error with `path` if `bytes` begin like a Git LFS pointer or a GGUF file (bad_file) or like a PyTorch file (unsupported).
// Readers of other formats call it before parsing.
void refuse_other_formats(const std::string& path, std::string_view bytes);

// The path of the file `name` in `folder`. If the file is missing because this is a run folder of `weft train`, a folder of GGUF files or
// an adapter's folder, it throws bad_file with advice; in any other case the caller's open fails.
std::string expected_in_folder(const std::string& folder, const std::string& name);

// The same for an adapter, which a run folder has in `adapter`.
std::string expected_in_adapter(const std::string& folder, const std::string& name);

// Throws (unsupported) if the folder's weights are PyTorch files; the message says how to convert them.
void refuse_pytorch_weights(const std::string& folder);

}  // namespace weft
