// Counts the bytes that kernels move on a simulated GPU, case by case, and checks them:
//   row ops and elementwise   at most 1.05 times the least, or what the exceptions below derive
//   matmul                    each operand as often as the tiles imply, to the byte
//   causal attention          the same, tiles outside of windows and documents not at all; and only O(N) is written
//   decoding                  every cached key and value once per eight heads, and what the segments imply, to the byte
//
//   metal_counters [OP...]    of these ops; without arguments, of all
#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "bench/counted.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/base/philox.h"
#include "weft/tile/metal/key_segments.h"

namespace weft {
namespace {

constexpr double kMost = 1.05;
constexpr double kFewestBytes = 96 << 10;  // below, words that all threads share would be a part

const std::set<std::string> kRowOps{
    "adamw",         "clip_of_squares",  "copy",         "cross_entropy", "dropout", "elementwise", "embedding", "fill",
    "gradient_norm", "gradient_squares", "kv_append",    "layer_norm",    "lion",    "reduce",      "rms_norm",  "rope",
    "sgd",           "softmax",          "transpose_2d", "uniform"};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A case, its least cost and what was counted.
struct Counted {
  const spec::Case& c;
  const spec::Problem& problem;
  Cost least;
  metal::Counters counters;

  const spec::Operand* find(const std::string& name) const {
    for (const spec::Operand& o : problem.operands())
      if (o.name == name) return &o;
    return nullptr;
  }
  const spec::Operand& operand(const std::string& name) const {
    const spec::Operand* found = find(name);
    check(found, "metal_counters", c.op, ".", c.variant, " has no operand ", name);
    return *found;
  }
  int64_t bytes(const std::string& name) const {
    const spec::Operand* found = find(name);
    return found ? found->shape.numel() * size_of(found->dtype) : 0;
  }
  int64_t moved() const { return counters.device_read + counters.device_written; }
};

// ---- row ops

// Norms: a team of threads reads the weights once for its rows. There are at least 64 teams (16 in the backward pass, where each also
// writes and reads its sums), so that few rows still fill a GPU; the weights of a row larger than 64 KiB are read for each row. Rows whose
// gradients a team cannot hold are read twice in the backward pass.
double allowed_norm(const Counted& k) {
  const bool backward = k.c.variant.ends_with("backward");
  const int64_t C = k.operand("w").shape.numel(), rows = k.problem.operands()[0].shape.numel() / std::max<int64_t>(1, C),
                width = size_of(k.c.dtype);
  const int64_t weights = k.bytes("w") + k.bytes("b"), sums = k.bytes("dw") + k.bytes("db");
  if (!backward) return double((std::min<int64_t>(rows, 64) - 1) * weights);
  if (C * width > 64 << 10) return double(k.bytes("dy") + k.bytes("h") + rows * weights);
  return double(std::min<int64_t>(rows, 16) * (weights + 2 * sums));
}

// Traffic that a kernel may have beyond 1.05 times the minimum, and why.
double exception(const Counted& k) {
  const int64_t registers = 1024 * 16;  // bytes of a row per chunk held by a thread
  if (k.c.op == "rms_norm" || k.c.op == "layer_norm") return allowed_norm(k);
  if (k.c.op == "embedding" && k.c.variant.starts_with("forward"))  // a row of the table per position, from caches if ids repeat
    return double(k.bytes("ids") + 2 * k.bytes("y")) - k.least.bytes;
  if (k.c.op == "embedding") {  // backward: per row of the table and segment of ids, two bytes of `starts` written and four read
    const int64_t P = k.operand("ids").shape.numel(), V = k.operand("dw").shape[0], segment = P > 2048 && V < 1 << 20 ? 4096 : 2048;
    return double(6 * (V + 1) * ceil_div(P, segment));
  }
  if (k.c.op == "softmax" && k.c.variant.ends_with("backward")) {  // a thread holds five chunks of y and dy each, or nine of y alone
    const int64_t C = k.operand("y").shape[1] * size_of(k.c.dtype);
    return C > 5 * registers ? double(k.bytes("dy")) : 0;
  }
  if (k.c.op == "rope" && k.find("start")) {  // per token of each sequence: a row of the table, and the start for each vector of it
    const Shape& x = k.operand("x").shape;
    const int64_t T = x[k.c.name.ends_with("by_head") ? 2 : 1], sequences = k.operand("start").shape.numel(),
                  half = k.operand("cos").shape[1], N = 16 / size_of(k.c.dtype);
    const int64_t vectors = ceil_div(half, N) + ceil_div(x[3] - 2 * half, N);
    return double((sequences - 1) * T * half * 2 * int64_t(sizeof(float)) + sequences * T * vectors * int64_t(sizeof(int32_t)));
  }
  if (k.c.op == "cross_entropy") {  // eight chunks of a row are held, the others are read again for a gradient
    const int64_t rows = k.operand("logits").shape[0], again = std::max<int64_t>(0, k.bytes("logits") - rows * 8 * registers);
    // A digest is computed by a kernel of its own: one more read, and the target and a flag by each of its eight simdgroups. The other
    // kernels keep their 5 %.
    const double digest = k.find("digests") ? double(k.bytes("logits") + rows * 8 * 8) + (kMost - 1) * k.least.bytes : 0;
    return double(k.c.variant != "loss" ? again : 0) + digest;
  }
  if (k.c.op == "kv_append" && k.find("pages")) {  // a thread reads the id of its page, a simdgroup the start
    const Shape& x = k.operand("k").shape;
    const int64_t size = size_of(k.c.dtype), threads = x.numel() / (x[3] * size % 16 == 0 ? 16 / size : 1);
    return double(4 * threads + 4 * threads / 32);
  }
  return 0;
}

std::string hold_row_op(const Counted& k) {
  const double allowed = std::max(kMost * k.least.bytes, 1.01 * (k.least.bytes + exception(k)));
  if (double(k.moved()) <= allowed) return "";
  return join("moves ", k.moved(), " bytes, the least is ", int64_t(k.least.bytes), ", allowed ", int64_t(allowed));
}

// ---- matmul: weft/ops/matmul/metal/matmul.cpp and matmul.metal say how blocks are chosen

std::string hold_matmul(const Counted& k) {
  const Shape &c = k.operand("c").shape, &b = k.operand("b").shape;
  if (c.rank() != 2 || c.numel() == 0) return "";
  const bool transpose_b = k.c.variant[1] == 'T';
  const int64_t M = c[0], N = c[1], K = transpose_b ? b[1] : b[0];
  const bool few = M <= 8;
  const int64_t side = few ? transpose_b ? 16 : 32 : M > 32 && N > 32 && ceil_div(M, 64) * ceil_div(N, 64) >= 64 ? 64 : 32;
  const int64_t down = few ? 1 : ceil_div(M, side), across = ceil_div(N, side);
  const int64_t old_c = k.operand("c").role == spec::Role::in_place ? k.bytes("c") : 0;
  const int64_t read = across * k.bytes("a") + down * k.bytes("b") + old_c, bias = (few ? 1 : 2 * down) * k.bytes("bias"),
                written = k.bytes("c") + k.bytes("pre");
  const int64_t got = k.counters.device_read;
  if (got < read || got > read + bias || k.counters.device_written != written)
    return join("reads ", got, " and writes ", k.counters.device_written, " bytes; tiles imply ", read, ", ", bias, " of bias and ",
                written);
  if (k.counters.matrix_multiply_adds < M * N * K)
    return join("has ", k.counters.matrix_multiply_adds, " of ", M * N * K, " multiply-adds on matrices");
  return "";
}

// ---- causal attention: weft/ops/causal_attention/metal/forward.metal and backward.metal

// Tokens of each document, and the window; a window of all tokens is none.
struct Rule {
  std::vector<int64_t> lengths;
  int64_t window;
};

// The sum over query blocks of the keys staged for them, in whole tiles.
int64_t keys_staged(const Rule& rule, int64_t queries, int64_t tile) {
  int64_t sum = 0;
  for (const int64_t T : rule.lengths)
    for (int64_t m = 0; m < T; m += queries) {
      const int64_t first = std::max<int64_t>(0, m - rule.window + 1) / tile * tile;
      sum += std::min(T, ceil_div(std::min(T, m + queries), tile) * tile) - first;
    }
  return sum;
}
// The sum over key blocks of the queries staged for them.
int64_t queries_staged(const Rule& rule, int64_t keys, int64_t tile) {
  int64_t sum = 0;
  for (const int64_t T : rule.lengths)
    for (int64_t n = 0; n < T; n += keys) {
      const int64_t end = std::min(T, n + keys - 1 + rule.window);
      sum += std::min(T, ceil_div(end, tile) * tile) - n / tile * tile;
    }
  return sum;
}

// The lengths of documents: 0 = documents[0], ...
std::vector<int64_t> lengths_of(const Counted& k, int64_t T) {
  const spec::Operand* documents = k.find("documents");
  if (!documents) return {T};
  PhiloxStream none(0);
  std::vector<int64_t> lengths;
  for (int64_t i = 1; i < documents->shape[0]; ++i)
    lengths.push_back(int64_t(documents->fill(none, i)) - int64_t(documents->fill(none, i - 1)));
  return lengths;
}

// The window of a case named ..., /window_40; none if it has no window. A case whose name has no number is left out.
std::optional<int64_t> window_of(const std::string& name, int64_t T) {
  const size_t at = name.find("window_");
  if (at != std::string::npos && std::isdigit(name[at + 7])) return std::stoll(name.substr(at + 7));
  if (name.find("window") != std::string::npos || name.find("all_options") != std::string::npos) return std::nullopt;
  return T;
}

// Cases with options are held in f32 alone: the tiles of both dtypes are the same.
bool has_options(const std::string& name) {
  return name.find("window") != std::string::npos || name.find("document") != std::string::npos || name.find("cap") != std::string::npos;
}

// Checking documents reads them three times and writes them once. Every thread of `groups` threadgroups then reads two of them, and one for
// each step of a binary search.
struct DocumentBytes {
  int64_t least, most, written;
};
DocumentBytes document_bytes(const Counted& k, int64_t groups) {
  const spec::Operand* documents = k.find("documents");
  if (!documents) return {0, 0, 0};
  const int64_t n = documents->shape[0] - 1, word = int64_t(sizeof(int32_t)), steps = std::bit_width(uint64_t(n));
  return {k.bytes("documents"), 3 * k.bytes("documents") + word * 256 * groups * (steps + 3), k.bytes("documents")};
}

std::string hold_attention(const Counted& k) {
  if (!k.find("q")) return "";  // q, k and v are parts of one operand
  const Shape &q = k.operand("q").shape, &lse = k.operand("lse").shape;
  const int64_t B = lse[0], H = lse[1], T = lse[2], D = q[3], row = D * size_of(k.c.dtype), statistics = 2 * int64_t(sizeof(float));
  if (q.numel() == 0) return "";
  const Rule rule{lengths_of(k, T), window_of(k.c.name, T).value()};
  int64_t read, written, groups;
  if (k.c.variant == "forward") {
    const int64_t rows = D <= 128 ? 64 : 32;
    read = k.bytes("q") + 2 * B * H * row * keys_staged(rule, rows, D <= 64 ? 32 : D <= 128 ? 16 : 8);
    written = k.bytes("o") + k.bytes("lse");
    groups = (T / rows + int64_t(rule.lengths.size())) * H;
  } else {
    const int64_t slices = D <= 64 ? 1 : D <= 128 ? 2 : 4, rows = 64 / slices, tile = 32 / slices;
    const int64_t products = k.bytes("o") + k.bytes("dout"), delta = B * H * T * int64_t(sizeof(float));
    const int64_t dq = k.bytes("q") + k.bytes("dout") + slices * B * H * T * statistics + 2 * B * H * row * keys_staged(rule, rows, tile);
    const int64_t dkv = k.bytes("k") + k.bytes("v") + B * H * (2 * row + statistics) * queries_staged(rule, rows, tile);
    read = products + dq + dkv;
    written = delta + k.bytes("dq") + k.bytes("dk") + k.bytes("dv");
    groups = (T / rows + int64_t(rule.lengths.size())) * (H + k.bytes("k") / std::max<int64_t>(1, B * T * row));
  }
  const DocumentBytes documents = document_bytes(k, groups);
  const int64_t got = k.counters.device_read;
  if (got >= read + documents.least && got <= read + documents.most && k.counters.device_written == written + documents.written) return "";
  return join("reads ", got, " and writes ", k.counters.device_written, " bytes; tiles imply ", read, " and ", written, ", documents ",
              documents.least, " to ", documents.most);
}

// ---- decoding: weft/ops/kv_attention/metal

std::string hold_decode(const Counted& k) {
  const bool by_head = k.c.name.ends_with("by_head") || k.c.name.ends_with("padded");
  const Shape &q = k.operand("q").shape, &cache = k.operand("k").shape;
  const spec::Operand* pages = k.find("pages");
  const int64_t B = q[0], H = q[by_head ? 1 : 2], D = q[3], Hkv = cache[by_head ? 1 : 2];
  const int64_t capacity = cache[by_head ? 2 : 1] * (pages ? pages->shape[1] : 1), window = window_of(k.c.name, capacity).value();
  const int64_t row = D * size_of(k.c.dtype), rows = Hkv * ceil_div(H / Hkv, 8), segments = ceil_div(capacity, kKeySegment);
  const bool whole = segments == 1 || B * rows >= 128;
  const int64_t blocks = D <= 64 ? 4 : D <= 128 ? 2 : 1;  // simdgroups that read q; eight keys of a tile each
  int64_t read = 4 * 128 * (whole ? 1 : segments) * rows * B, written = k.bytes("o");
  PhiloxStream none(0);
  for (int64_t b = 0; b < B; ++b) {
    // Keys from the window's first tile on, and its values; every thread reads the page of each tile of both.
    const int64_t end = int64_t(k.operand("start").fill(none, b)) + 1, hidden = std::max<int64_t>(0, end - window),
                  first = hidden / (8 * blocks) * (8 * blocks), used = ceil_div(end, kKeySegment) - first / kKeySegment;
    read += (end - first + end - hidden) * rows * row + blocks * (whole ? 1 : used) * H * row;
    if (pages) read += 2 * 4 * 128 * ceil_div(end - first, 8 * blocks) * rows;
    if (whole) continue;
    const int64_t partial = 4 * used * H * D, statistics = 8 * used * H;
    written += partial + statistics;
    read += partial + statistics * ceil_div(D, 32) + 4 * 256 * H;
  }
  if (k.counters.device_read == read && k.counters.device_written == written) return "";
  return join("reads ", k.counters.device_read, " and writes ", k.counters.device_written, " bytes; segments imply ", read, " and ",
              written);
}

// ---- the run

struct Tally {
  std::map<std::string, int> held;         // by op
  std::map<std::string, int64_t> written;  // by attention's case
  std::map<std::string, double> worst;     // bytes over the minimum, by op
  int failed = 0;
};

void hold(const spec::Case& c, Device& device, Tally& tally) {
  const bool rows = kRowOps.contains(c.op), matmuls = c.op == "matmul" && c.variant.size() == 2;
  const bool decodes = c.op == "kv_attention" && c.variant == "decode";
  if (!rows && !matmuls && !decodes && c.op != "causal_attention") return;
  if (!bench::has_kernel(c) || c.variant == "rule") return;  // a rule of autograd is composed of several kernels
  if (c.op == "causal_attention" && (!window_of(c.name, 0) || (has_options(c.name) && c.dtype != DType::f32))) return;
  const spec::Problem problem = c.make();
  const std::optional<Cost> least = bench::countable_cost(problem, device);
  if (!least || (rows && least->bytes < kFewestBytes)) return;
  const Counted counted{c, problem, *least, bench::count(problem, device)};
  const std::string wrong = rows      ? hold_row_op(counted)
                            : matmuls ? hold_matmul(counted)
                            : decodes ? hold_decode(counted)
                                      : hold_attention(counted);
  const std::string name = join(c.op, ".", c.variant, "/", c.dtype, "/", c.name);
  if (!wrong.empty()) std::printf("%s: %s\n", name.c_str(), wrong.c_str());
  tally.failed += !wrong.empty();
  ++tally.held[c.op];
  double& worst = tally.worst[c.op];
  worst = std::max(worst, double(counted.moved()) / std::max(1.0, counted.least.bytes));
  if (c.op == "causal_attention") tally.written[name] = counted.counters.device_written;
}

// Twice the tokens, twice the bytes written: no score matrix is written to memory.
void hold_linear(Tally& tally) {
  for (const char* variant : {"forward", "backward"})
    for (const char* dtype : {"f32", "bf16"}) {
      const auto of = [&](const char* size) { return tally.written.at(join("causal_attention.", variant, "/", dtype, "/", size)); };
      const int64_t once = of("1x128x2x1x64"), twice = of("1x256x2x1x64");
      if (twice == 2 * once) continue;
      std::printf("causal_attention.%s/%s: writes %ld bytes for 128 tokens and %ld for 256\n", variant, dtype, long(once), long(twice));
      ++tally.failed;
    }
}

int run(const std::set<std::string>& ops) {
  const auto device = open_device("metal-sim:counting");
  spec::Registry registry;
  spec::add_all_specs(registry);
  Tally tally;
  for (const auto* list : {&registry.cases(), &registry.benches(), &registry.counted()})
    for (const spec::Case& c : *list)
      if (ops.empty() || ops.contains(c.op)) hold(c, *device, tally);
  if (tally.held.contains("causal_attention")) hold_linear(tally);
  for (const auto& [op, held] : tally.held)
    std::printf("%-18s %4d held, at most %.3f of the least\n", op.c_str(), held, tally.worst.at(op));
  std::printf("%d failed\n", tally.failed);
  const size_t expected = ops.empty() ? kRowOps.size() + 3 : ops.size();
  if (tally.held.size() != expected) std::printf("only %zu of %zu ops had a case to hold\n", tally.held.size(), expected);
  return tally.failed > 0 || tally.held.size() != expected;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::run({argv + 1, argv + argc}); }
