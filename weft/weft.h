// Everything a program that uses Weft needs.
#pragma once

#include "weft/backends/open.h"
#include "weft/ops/add_assign/add_assign.h"
#include "weft/ops/bias_add/bias_add.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/ops/rope/rope.h"
#include "weft/ops/scale/scale.h"
#include "weft/ops/softmax/softmax.h"
#include "weft/tensor/node.h"
#include "weft/tensor/tensor.h"
