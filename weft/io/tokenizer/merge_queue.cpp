#include "weft/io/tokenizer/merge_queue.h"

#include <algorithm>
#include <functional>

namespace weft {

void MergeQueue::push(int32_t rank, int32_t place) {
  if (size_t(rank) >= bucket_of_.size()) bucket_of_.resize(size_t(rank) + 1, -1);
  int32_t& index = bucket_of_[size_t(rank)];
  if (index < 0) {
    index = int32_t(used_.size());
    used_.push_back(rank);
    if (buckets_.size() < used_.size()) buckets_.emplace_back();
  }
  Bucket& bucket = buckets_[size_t(index)];
  if (bucket.done < bucket.places.size() && place < bucket.places.back()) bucket.sorted = false;
  bucket.places.push_back(place);
  if (bucket.open) return;
  bucket.open = true;
  open_.push_back(rank);
  std::push_heap(open_.begin(), open_.end(), std::greater<>());
}

bool MergeQueue::pop(Entry& entry) {
  while (!open_.empty()) {
    const int32_t rank = open_.front();
    Bucket& bucket = buckets_[size_t(bucket_of_[size_t(rank)])];
    if (bucket.done < bucket.places.size()) {
      if (!bucket.sorted) std::sort(bucket.places.begin() + ptrdiff_t(bucket.done), bucket.places.end());
      bucket.sorted = true;
      entry = {rank, bucket.places[bucket.done++]};
      return true;
    }
    bucket.places.clear();
    bucket.done = 0;
    bucket.open = false;
    std::pop_heap(open_.begin(), open_.end(), std::greater<>());
    open_.pop_back();
  }
  for (const int32_t rank : used_) bucket_of_[size_t(rank)] = -1;
  used_.clear();
  return false;
}

}  // namespace weft
