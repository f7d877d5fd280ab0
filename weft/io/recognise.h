// Files and folders that are not what a reader expects, recognised by their first bytes and their names, so that the error
// says what they are and what to do, instead of where a parser stopped.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Throws, naming `path`, where its first bytes are those of a Git LFS pointer (bad_file), or of a GGUF or PyTorch file
// (unsupported). Readers of other formats call it before they parse.
void refuse_other_formats(const std::string& path, std::string_view bytes);

// The path of `name` in `folder`. Throws where the folder lacks it and is the folder of a run (bad_file), or one of GGUF
// files (unsupported). A file that is missing for another reason is left to whoever opens it.
std::string expected_in_folder(const std::string& folder, const std::string& name);

// Throws (unsupported) where the weights of the folder are PyTorch's own files; says how to convert them.
void refuse_pytorch_weights(const std::string& folder);

}  // namespace weft
