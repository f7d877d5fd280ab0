// The stream of a Metal device: dispatches are submitted in batches; a barrier is put between two of them only if one accesses what the
// other writes.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "weft/device/stream.h"
#include "weft/tile/metal/fault.h"
#include "weft/tile/metal/pipelines.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal {

// Which memory dispatches since the last barrier use.
class Hazards {
 public:
  // Whether a dispatch using these bytes so must come after one that was added.
  bool conflicts(void* buffer, int64_t offset, int64_t bytes, bool written) const;
  void add(void* buffer, int64_t offset, int64_t bytes, bool written);
  void clear() { uses_.clear(); }

 private:
  struct Use {
    int64_t begin, end;
    bool written;
  };
  std::unordered_map<void*, std::vector<Use>> uses_;
};

class MetalStream : public Stream {
 public:
  MetalStream(Device& device, Gpu& gpu);
  ~MetalStream() override;
  bool synchronous() const override { return false; }

  Gpu& gpu() const { return gpu_; }
  Pipelines& pipelines() { return pipelines_; }

  // Encodes a dispatch, after a barrier if it needs one.
  void encode(const Dispatch& dispatch);

  // A record for one launch of the op now launching, by its place in the fault buffer.
  struct FaultPlace {
    void* buffer;
    int64_t offset;
  };
  FaultPlace next_fault();

  // Returns when the host may touch this buffer: at once, unless work that uses it is under way.
  void finish(void* buffer);

 protected:
  void wait() override;

 private:
  void collect_faults();
  metal_fault::Record* records();

  Gpu& gpu_;
  Pipelines pipelines_;
  Hazards hazards_;
  std::unordered_map<void*, bool> busy_;  // buffers used since the last wait
  int uncommitted_ = 0;                   // dispatches
  void* faults_ = nullptr;
  std::vector<const char*> fault_ops_;  // of the records given out since the last wait
};

inline MetalStream& of(Stream& stream) { return static_cast<MetalStream&>(stream); }

}  // namespace weft::metal
