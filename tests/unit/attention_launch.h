// Launches of causal attention for tests whose operands stand in one struct with the members q, k, v, dout, o, lse, dq, dk, dv.
#pragma once

#include "weft/ops/causal_attention/causal_attention.h"

namespace weft {

struct LaunchOptions {
  float scale = 1;
  int64_t window = 0;
  float soft_cap = 0;
  View documents = {};
};

template <class Args>
Args with_options(Args args, const LaunchOptions& options) {
  args.documents = options.documents, args.window = options.window, args.soft_cap = options.soft_cap;
  return args;
}

template <class Tensors>
void launch_forward(Stream& stream, const Tensors& t, const LaunchOptions& options) {
  CausalAttentionArgs args{
      .q = t.q.view(), .k = t.k.view(), .v = t.v.view(), .o = t.o.mut_view(), .lse = t.lse.mut_view(), .scale = options.scale};
  causal_attention(stream, with_options(args, options));
}

template <class Tensors>
void launch_backward(Stream& stream, const Tensors& t, const LaunchOptions& options) {
  CausalAttentionBackwardArgs args{.dout = t.dout.view(),
                                   .q = t.q.view(),
                                   .k = t.k.view(),
                                   .v = t.v.view(),
                                   .o = t.o.view(),
                                   .lse = t.lse.view(),
                                   .dq = t.dq.mut_view(),
                                   .dk = t.dk.mut_view(),
                                   .dv = t.dv.mut_view(),
                                   .scale = options.scale};
  causal_attention_backward(stream, with_options(args, options));
}

}  // namespace weft
