// The list behind --data: "a.jsonl", "a.jsonl,b/", "a.jsonl:0.7,b/:0.3". Each item is a file, a folder, a glob ("data/*.jsonl.gz") or a
// prepared folder, and may have a weight. A name that exists is taken as it is, whatever commas, colons or stars it has.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct DataItem {
  std::string path;
  double weight = 0;  // 0: none was given
};

// Throws, naming the item, for an empty one, for a weight that is not a positive number, and for a list where only some have weights.
std::vector<DataItem> data_items(const std::string& list);
bool is_weighted(const std::vector<DataItem>& items);

// Files and folders that an item stands for: itself, or the matches of a glob in the order of their names. Throws if there is none.
std::vector<std::string> paths_of(const std::string& item);

// A short name for data, to name a run by: "corpus" for "in/corpus.jsonl.gz", "a-b" for "a.txt:0.5,b/:0.5".
std::string data_name(const std::string& list);

}  // namespace weft
