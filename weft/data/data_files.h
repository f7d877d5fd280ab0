// The files behind an item of --data, and how each is read. Not installed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/io/byte_stream.h"

namespace weft {

// The values are part of the hash that names cache folders.
enum class Kind : uint8_t { text = 0, json_lines = 1, json = 2, unknown = 3 };

// By the extension, before .gz or .zst if the file is compressed.
Kind kind_of(const std::string& path);

inline constexpr const char* kKnownKinds = "text (.txt, .text, .md), JSON lines (.jsonl, .ndjson) or JSON (.json), also as .gz or .zst,";

// All files of an unweighted list. A folder stands for the known files in it; `notice` (may be empty) is called once with the names of
// the others. Throws for a path that does not exist, a glob without matches, and a folder without data.
std::vector<std::string> data_files(const std::string& list, const std::function<void(const std::string&)>& notice);

}  // namespace weft
