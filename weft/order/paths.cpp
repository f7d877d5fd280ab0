#include "weft/order/paths.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

#include "weft/generate/decode_step.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft::order {
namespace {

using Random = std::mt19937_64;

int64_t below(Random& random, int64_t n) { return int64_t(random() % uint64_t(n)); }

std::vector<size_t> all_of(const Sequences& sequences) {
  std::vector<size_t> which(sequences.size());
  std::iota(which.begin(), which.end(), size_t(0));
  return which;
}

std::vector<size_t> shuffled(std::vector<size_t> list, Random& random) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[size_t(below(random, int64_t(i)))]);
  return list;
}

}  // namespace

PositionBits Paths::none() const {
  PositionBits rows;
  for (const auto& ids : sequences_) rows.emplace_back(ids.size());
  return rows;
}

// The next token; after the last one any will do.
int32_t Paths::target(size_t sequence, int64_t position) const {
  const auto& ids = sequences_[sequence];
  return ids[size_t(position + 1) % ids.size()];
}

PositionBits Paths::training(Training kind, int64_t tokens, uint64_t seed) const {
  PositionBits rows = none();
  Random random(seed);
  const std::vector<size_t> order = seed ? shuffled(all_of(sequences_), random) : all_of(sequences_);
  for (size_t next = 0; next < order.size();) {
    std::vector<size_t> batch;
    int64_t longest = 0;
    const int64_t most = seed ? 1 + below(random, 7) : INT64_MAX;
    while (next < order.size() && int64_t(batch.size()) < most) {
      longest = std::max(longest, int64_t(sequences_[order[next]].size()));
      if (!batch.empty() && int64_t(batch.size() + 1) * longest > tokens) break;
      batch.push_back(order[next++]);
    }
    train(batch, kind, rows);
  }
  return rows;
}

void Paths::train(const std::vector<size_t>& batch, Training kind, PositionBits& rows) const {
  int64_t T = 0;
  for (size_t s : batch) T = std::max(T, int64_t(sequences_[s].size()));
  const int64_t B = int64_t(batch.size()), padding = model_.config().vocab_size;
  std::vector<int32_t> ids(size_t(B * T), 0), targets(size_t(B * T), int32_t(padding));
  std::vector<Place> places;
  for (size_t b = 0; b < batch.size(); ++b) {
    const auto& from = sequences_[batch[b]];
    for (size_t t = 0; t < from.size(); ++t) {
      ids[b * size_t(T) + t] = from[t];
      targets[b * size_t(T) + t] = target(batch[b], int64_t(t));
    }
    places.push_back({batch[b], 0, int64_t(from.size())});
  }
  expect(places);
  Device& device = model_.device();
  LossOptions options{.pad_id = padding, .count = full(device, {}, 1), .recompute = kind == Training::recomputed};
  options.losses = Tensor::empty(device, {B, T});
  options.digests = Tensor::empty(device, {B, T}, DType::u32);
  std::optional<NoGrad> no_grad;
  if (kind == Training::evaluation) no_grad.emplace();
  model_.loss(Tensor::from_host(device, {B, T}, ids), Tensor::from_host(device, {B, T}, targets), options);
  const auto losses = options.losses.to_host<float>();
  const auto digests = options.digests.to_host<uint32_t>();
  for (size_t b = 0; b < batch.size(); ++b)
    for (size_t t = 0; t < sequences_[batch[b]].size(); ++t) {
      const size_t at = b * size_t(T) + t;
      rows[batch[b]][t] = {digests[at], std::bit_cast<uint32_t>(losses[at])};
    }
}

// The bits of logits [B, vocabulary] after the last position of each place.
void Paths::put(PositionBits& rows, const Tensor& logits, const std::vector<Place>& places) const {
  const NoGrad no_grad;
  Device& device = model_.device();
  const auto B = int64_t(places.size());
  std::vector<int32_t> targets;
  for (const Place& p : places) targets.push_back(target(p.sequence, p.first + p.count - 1));
  const Tensor losses = Tensor::empty(device, {B}), digests = Tensor::empty(device, {B}, DType::u32);
  cross_entropy(logits, Tensor::from_host(device, {B}, targets), {.losses = losses, .digests = digests});
  const auto bits = digests.to_host<uint32_t>();
  const auto values = losses.to_host<float>();
  for (size_t b = 0; b < places.size(); ++b)
    rows[places[b].sequence][size_t(places[b].first + places[b].count - 1)] = {bits[b], std::bit_cast<uint32_t>(values[b])};
}

PositionBits Paths::prompts(int64_t batch, uint64_t seed) const {
  PositionBits rows = none();
  Random random(seed);
  const std::vector<size_t> order = shuffled(all_of(sequences_), random);
  for (size_t next = 0; next < order.size();) {
    const size_t B = size_t(1 + below(random, std::min<int64_t>(batch, int64_t(order.size() - next))));
    int64_t T = 0;
    std::vector<Place> places;
    std::vector<int64_t> lengths;
    for (size_t b = 0; b < B; ++b) {
      const auto n = int64_t(sequences_[order[next + b]].size());
      places.push_back({order[next + b], 0, n});
      lengths.push_back(n);
      T = std::max(T, n);
    }
    std::vector<int32_t> ids(B * size_t(T), 0);
    for (size_t b = 0; b < B; ++b) std::ranges::copy(sequences_[order[next + b]], ids.begin() + int64_t(b) * T);
    expect(places);
    KvCache cache = model_.make_cache(int64_t(B), T);
    put(rows, model_.last_logits(Tensor::from_host(model_.device(), {int64_t(B), T}, ids), cache, lengths), places);
    next += B;
  }
  return rows;
}

// Sequences in one cache, as a generator decodes them.
class Decoder {
 public:
  Decoder(const Paths& paths, int64_t batch, int64_t longest, uint64_t seed)
      : paths_(paths),
        random_(seed),
        batch_(batch),
        longest_(longest),
        cache_(new_cache()),
        row_(cache_.pool(), 1, cache_.capacity()),
        rows_(paths.none()) {
    decode_.emplace(paths_.model_, cache_);
  }

  PositionBits run(const std::vector<size_t>& which) {
    for (size_t next = 0; next < which.size() || !active_.empty();) {
      const bool room = next < which.size() && int64_t(active_.size()) < batch_;
      if (room && (active_.empty() || below(random_, 3) > 0))
        start(which[next++]);
      else
        step();
      if (below(random_, 128) == 0) resize();
    }
    return std::move(rows_);
  }

 private:
  struct Active {
    size_t sequence;
    int64_t length;  // positions in the cache
  };

  int64_t capacity() {
    const int64_t room = paths_.model_.config().max_positions - longest_;
    return longest_ + (room > 0 ? below(random_, std::min<int64_t>(room, 16) + 1) : 0);
  }
  const std::vector<int32_t>& ids(size_t sequence) const { return paths_.sequences_[sequence]; }

  // The pool has pages for sequences that are decoded, kept and read, and for each one more: a shared page exists twice while it is copied.
  KvCache new_cache() {
    const int64_t positions = capacity();
    return KvCache(paths_.model_.make_pool((2 * batch_ + 1) * (pages_for(positions) + 1)), batch_, positions);
  }

  void resize() {
    decode_.reset();  // its captured launches write into the old memory
    kept_.clear();
    KvCache other = new_cache();
    for (int64_t b = 0; b < cache_.batch(); ++b) other.join(cache_.sequence(b).copied_to(other.pool()));
    cache_ = std::move(other);
    row_ = KvCache(cache_.pool(), 1, cache_.capacity());
    decode_.emplace(paths_.model_, cache_);
  }

  // A random prefix of fewer than `most` positions that another sequence has; it often ends in the middle of a page.
  KvSequence shared(size_t sequence, int64_t most) {
    std::vector<std::pair<size_t, const KvSequence*>> others;
    for (size_t b = 0; b < active_.size(); ++b) others.emplace_back(active_[b].sequence, &cache_.sequence(int64_t(b)));
    for (const auto& [other, pages] : kept_) others.emplace_back(other, &pages);
    int64_t longest = 0;
    const KvSequence* from = nullptr;
    for (const auto& [other, pages] : others) {
      const auto same = std::ranges::mismatch(ids(sequence), ids(other)).in1 - ids(sequence).begin();
      if (const int64_t length = std::min({same, pages->length(), most - 1}); length > longest) longest = length, from = pages;
    }
    if (!from || below(random_, 4) == 0) return KvSequence(cache_.pool());
    return from->prefix(below(random_, 2) == 0 ? longest : 1 + below(random_, longest));
  }

  // Reads the first part of a sequence in pieces, some of one token, after a prefix shared with another sequence.
  void start(size_t sequence) {
    const auto n = int64_t(ids(sequence).size()), prompt = 1 + below(random_, std::max<int64_t>(1, n / 2));
    row_.join(shared(sequence, prompt));
    for (int64_t first = row_.sequence(0).length(); first < prompt;) {
      const int64_t T = below(random_, 4) == 0 ? 1 : 1 + below(random_, prompt - first);
      const std::vector<Place> places{{sequence, first, T}};
      paths_.expect(places);
      const auto piece = std::span(ids(sequence)).subspan(size_t(first), size_t(T));
      paths_.put(rows_, paths_.model_.last_logits(Tensor::from_host(paths_.model_.device(), {1, T}, piece), row_), places);
      first += T;
    }
    const int64_t at = below(random_, int64_t(active_.size()) + 1);
    cache_.join(row_.remove(0), at);
    active_.insert(active_.begin() + at, {sequence, prompt});
    end_finished();
  }

  void step() {
    std::vector<int32_t> newest;
    std::vector<Place> places;
    for (const Active& a : active_) {
      newest.push_back(ids(a.sequence)[size_t(a.length)]);
      places.push_back({a.sequence, a.length, 1});
    }
    paths_.expect(places);
    if (paths_.trace_) {  // a replayed graph shows nothing
      const Tensor input = Tensor::from_host(paths_.model_.device(), {int64_t(newest.size()), 1}, newest);
      paths_.put(rows_, paths_.model_.last_logits(input, cache_), places);
    } else {
      paths_.put(rows_, (*decode_)(newest), places);
    }
    for (Active& a : active_) ++a.length;
    end_finished();
  }

  void end_finished() {
    for (size_t b = active_.size(); b-- > 0;) {
      if (active_[b].length < int64_t(ids(active_[b].sequence).size())) continue;
      kept_.emplace_back(active_[b].sequence, cache_.remove(int64_t(b)));
      if (int64_t(kept_.size()) > batch_) kept_.erase(kept_.begin());
      active_.erase(active_.begin() + std::ptrdiff_t(b));
    }
  }

  const Paths& paths_;
  Random random_;
  int64_t batch_, longest_;
  KvCache cache_, row_;  // of the sequences that are decoded; of the one that is read
  std::optional<DecodeStep> decode_;
  std::vector<Active> active_;
  std::vector<std::pair<size_t, KvSequence>> kept_;  // sequences that have ended
  PositionBits rows_;
};

PositionBits Paths::decode(const std::vector<size_t>& which, int64_t batch, uint64_t seed) const {
  int64_t longest = 1;
  for (size_t s : which) longest = std::max(longest, int64_t(sequences_[s].size()));
  return Decoder(*this, batch, longest, seed).run(which);
}

PositionBits Paths::decoding(int64_t batch, uint64_t seed) const {
  Random random(seed);
  return decode(shuffled(all_of(sequences_), random), batch, seed + 1);
}

PositionBits Paths::decoding_alone(size_t sequence, uint64_t seed) const { return decode({sequence}, 1, seed); }

}  // namespace weft::order
