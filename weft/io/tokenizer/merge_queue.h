// A priority queue of the places where pairs can be merged: the lowest rank first, of equal ranks the leftmost place. A bucket for each
// rank is sorted when its turn comes, so that a long text is passed through from left to right once a rank; a binary heap would jump
// about in memory (10 MB of spaces: 16 s).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

class MergeQueue {
 public:
  void push(int32_t rank, int32_t place);

  struct Entry {
    int32_t rank, place;
  };
  // False if the queue is empty.
  bool pop(Entry& entry);

 private:
  struct Bucket {
    std::vector<int32_t> places;  // those before `done` are popped
    size_t done = 0;
    bool sorted = true;
    bool open = false;  // in open_
  };

  std::vector<int32_t> bucket_of_;  // by rank; -1: none
  std::vector<Bucket> buckets_;
  std::vector<int32_t> open_;  // ranks with places, as a heap: the lowest is in front
  std::vector<int32_t> used_;  // ranks that have a bucket
};

}  // namespace weft
