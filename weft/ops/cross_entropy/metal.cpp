#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/cross_entropy/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/cross_entropy/metal.metal";

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& a) {
  const Rows x = as_rows(a.logits, a.kOp, "logits"), dx = a.dlogits ? as_rows(a.dlogits, a.kOp, "dlogits") : Rows{};
  const char* id = a.targets.dtype == DType::u32 ? "_u32" : "_i32";
  const std::vector<Constant> options{constant(2, bool(a.dlogits)), constant(3, bool(a.count)), constant(4, a.accumulate),
                                      constant(5, bool(a.maxima)), constant(6, bool(a.log_sums))};
  const Kernel kernel{
      a.kOp, kFile,
      join("each_row", suffix_of(a.logits.dtype), a.dlogits && a.dlogits.dtype != a.logits.dtype ? suffix_of(a.dlogits.dtype) : "", id),
      options};
  const RowPlan plan = plan_rows(stream, kernel, x.columns, size_of(a.logits.dtype), teams_of(x.rows),
                                 aligned16(a.logits, x.stride) && aligned16(a.dlogits, dx.stride), kHeldLogits);
  const CrossEntropyParams p{x.rows, x.stride, dx.stride, a.pad_id, columns_of(a.kOp, x), plan.team};
  const auto shared = scratch(stream, sizeof(CrossEntropyShared)), own = scratch(stream, a.losses ? 0 : x.rows * int64_t(sizeof(float)));
  const auto losses_in = a.losses ? in(a.losses) : in(*own), losses_out = a.losses ? out(a.losses) : out(*own);
  const Grid one{.groups = {1, 1, 1}, .threads = 256};
  launch(stream, {a.kOp, kFile, join("count", id), options}, one, {in(a.targets), in(a.count), out(*shared), params(p), fault(stream)});
  if (a.digests && x.rows > 0)  // before an in-place gradient overwrites the logits
    launch(stream, {a.kOp, kFile, join("digest", suffix_of(a.logits.dtype), id), options},
           {.groups = {teams_of(x.rows), 1, 1}, .threads = 256}, {in(a.logits), in(a.targets), out(a.digests), in(*shared), params(p)});
  launch(stream, plan.kernel, plan.grid(),
         {in(a.logits), in(a.targets), out(a.dlogits), losses_out, out(a.maxima), out(a.log_sums), in(*shared), params(p)});
  launch(stream, {a.kOp, kFile, "total", options}, one, {losses_in, out(a.loss), in(*shared), params(p)});
}

}  // namespace weft::metal
