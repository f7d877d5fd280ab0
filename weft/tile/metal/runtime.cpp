#include "weft/tile/metal/runtime.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "weft/base/check.h"

namespace weft::metal {
namespace {

constexpr int kBatch = 64;      // dispatches handed over at once: the GPU starts while the host encodes on
constexpr int kRecords = 1024;  // launches between two waits that may report a fault

std::string describe(const metal_fault::Record& f) {
  switch (f.kind) {
    case metal_fault::id_out_of_range: return join("id ", f.value, " at position ", f.at, " is out of range [0, ", f.limit, ")");
    case metal_fault::target_out_of_range: return join("target ", f.value, " at position ", f.at, " is out of range [0, ", f.limit, ")");
    case metal_fault::position_out_of_range:
      return join("position ", f.value, " of sequence ", f.at, " is outside the table of ", f.limit, " positions");
    case metal_fault::start_out_of_range: return join("start ", f.value, " of sequence ", f.at, " is outside [0, ", f.limit, "]");
    case metal_fault::bad_step: return join("the step is ", f.value, ", expected 1 or more");
    case metal_fault::bad_documents:
      return join("documents[", f.at, "] is ", f.value, ", expected lengths that ascend from 0 to ", f.limit);
    case metal_fault::token_position_out_of_range:
      return join("position ", f.value, " of token ", f.at, " is out of range [0, ", f.limit, ")");
    case metal_fault::page_out_of_range: return join("page ", f.at, " of a sequence is ", f.value, ", expected 0 to ", f.limit);
    default: return join("a kernel reported a fault of unknown kind ", f.kind);
  }
}

}  // namespace

bool Hazards::conflicts(void* buffer, int64_t offset, int64_t bytes, bool written) const {
  const auto found = uses_.find(buffer);
  if (found == uses_.end()) return false;
  for (const Use& use : found->second)
    if ((written || use.written) && use.begin < offset + bytes && offset < use.end) return true;
  return false;
}

void Hazards::add(void* buffer, int64_t offset, int64_t bytes, bool written) { uses_[buffer].push_back({offset, offset + bytes, written}); }

MetalStream::MetalStream(Device& device, Gpu& gpu) : Stream(device), gpu_(gpu), pipelines_(gpu) {
  faults_ = gpu_.new_buffer(kRecords * int64_t(sizeof(metal_fault::Record)));
  if (!faults_) fail(ErrorCode::out_of_memory, "metal", "no memory for the fault records");
  std::memset(gpu_.contents(faults_), 0, kRecords * sizeof(metal_fault::Record));
}

MetalStream::~MetalStream() {
  try {
    gpu_.wait();
  } catch (const Error&) {  // in a destructor: the error cannot be reported
  }
  gpu_.delete_buffer(faults_);
}

void MetalStream::encode(const Dispatch& dispatch) {
  const auto conflicts = [this](const Binding& b) { return b.buffer && hazards_.conflicts(b.buffer, b.offset, b.bytes, !b.read_only); };
  if (std::any_of(dispatch.bindings.begin(), dispatch.bindings.end(), conflicts)) {
    gpu_.barrier();
    hazards_.clear();
  }
  for (const Binding& b : dispatch.bindings) {
    if (!b.buffer) continue;
    hazards_.add(b.buffer, b.offset, b.bytes, !b.read_only);
    busy_[b.buffer] = true;
  }
  gpu_.encode(dispatch);
  if (++uncommitted_ < kBatch) return;
  gpu_.commit();  // what comes after it is in order by itself
  hazards_.clear();
  uncommitted_ = 0;
}

MetalStream::FaultPlace MetalStream::next_fault() {
  if (fault_ops_.size() == size_t(kRecords)) wait();  // what was found stays to be raised
  fault_ops_.push_back(last_op());
  return {faults_, int64_t(fault_ops_.size() - 1) * int64_t(sizeof(metal_fault::Record))};
}

void MetalStream::finish(void* buffer) {
  if (busy_.contains(buffer)) wait();
}

void MetalStream::wait() {
  hazards_.clear();
  busy_.clear();
  uncommitted_ = 0;
  gpu_.wait();
  collect_faults();
}

metal_fault::Record* MetalStream::records() { return reinterpret_cast<metal_fault::Record*>(gpu_.contents(faults_)); }

// Records are in launch order, so the first report is that of the earliest launch.
void MetalStream::collect_faults() {
  for (size_t i = 0; i < fault_ops_.size(); ++i) {
    metal_fault::Record& record = records()[i];
    if (record.kind == metal_fault::none) continue;
    report(fault_ops_[i], describe(record));
    record = {};
  }
  fault_ops_.clear();
}

}  // namespace weft::metal
