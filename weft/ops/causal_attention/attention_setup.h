// A problem of causal attention as numbers, shared by the specs of causal_attention and packed_attention.
#pragma once

#include <cmath>
#include <vector>

#include "weft/ops/causal_attention/attention_truth.h"

namespace weft::spec::attention {

// Storage of q, k, v and their gradients.
enum class Store { by_token, by_head, packed };  // [B, T, H, D]; [B, H, T, D]; q, k, v in one [B, T, H + 2 Hkv, D]

struct Setup {
  DType dtype;
  Size size;
  Store store = Store::by_token;
  Layout layout = Layout::contiguous;
  Fill fill = normal();
  float scale = 0;
  bool smooth = true;  // finite differences say something
  int64_t window = 0;
  float soft_cap = 0;
  std::vector<int64_t> documents = {};  // cumulative lengths; empty: absent

  Rule rule() const { return {scale != 0 ? scale : 1 / std::sqrt(float(size.D)), window, soft_cap, documents}; }
  Shape out() const {
    const Size& n = size;
    return store == Store::by_head ? Shape{n.B, n.H, n.T, n.D} : Shape{n.B, n.T, n.H, n.D};
  }
  Place place(const char* tensor) const { return {tensor, size.T, size.H, size.D, 0, store == Store::by_head}; }
};

inline void declare_documents(Problem& p, const Setup& s) {
  if (s.documents.empty()) return;
  p.input("documents", DType::i32, {int64_t(s.documents.size())}, listed({s.documents.begin(), s.documents.end()}));
}

// The numbers of any Args, and documents.
template <class Args>
Args with_options(const Setup& s, const Bound& b, Args args) {
  args.scale = float(s.rule().scale), args.window = s.window, args.soft_cap = s.soft_cap;
  if (!s.documents.empty()) args.documents = b.view("documents");
  return args;
}

// o . dout, the loss whose derivatives the backward has.
inline double loss(const Truth& t, const Places& at, const Setup& s) {
  Array o = t["o"];
  attend(t, at, s.place("o"), s.size, s.rule(), o, nullptr);
  double loss = 0;
  for (int64_t i = 0; i < o.size(); ++i) loss += o[i] * t["dout"][i];
  return loss;
}

}  // namespace weft::spec::attention
