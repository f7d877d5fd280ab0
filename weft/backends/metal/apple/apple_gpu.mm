#include "weft/backends/metal/apple/apple_gpu.h"

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <algorithm>

#include "weft/base/check.h"

namespace weft::metal {
namespace {

constexpr int kSimdgroup = 32;  // the width that the kernels require

NSString* string_of(std::string_view text) {
  return [[NSString alloc] initWithBytes:text.data() length:text.size() encoding:NSUTF8StringEncoding];
}

std::string words_of(NSError* error) { return error ? error.localizedDescription.UTF8String : "no reason was given"; }

MTLDataType type_of(Constant::Type type) {
  switch (type) {
    case Constant::Type::boolean: return MTLDataTypeBool;
    case Constant::Type::i32: return MTLDataTypeInt;
    case Constant::Type::u32: return MTLDataTypeUInt;
    case Constant::Type::f32: return MTLDataTypeFloat;
  }
  return MTLDataTypeNone;
}

class ApplePipeline : public Pipeline {
 public:
  explicit ApplePipeline(id<MTLComputePipelineState> state) : state_(state) {}
  int most_threads() const override { return int(state_.maxTotalThreadsPerThreadgroup); }
  id<MTLComputePipelineState> state() const { return state_; }

 private:
  id<MTLComputePipelineState> state_;
};

class AppleLibrary : public Library {
 public:
  AppleLibrary(id<MTLDevice> device, id<MTLLibrary> library) : device_(device), library_(library) {}

  std::shared_ptr<Pipeline> pipeline(std::string_view kernel, const std::vector<Constant>& constants) override {
    @autoreleasepool {
      MTLFunctionConstantValues* values = [[MTLFunctionConstantValues alloc] init];
      for (const Constant& c : constants) {
        const bool flag = c.bits != 0;
        [values setConstantValue:c.type == Constant::Type::boolean ? static_cast<const void*>(&flag) : &c.bits
                            type:type_of(c.type)
                         atIndex:NSUInteger(c.index)];
      }
      NSError* error = nil;
      id<MTLFunction> function = [library_ newFunctionWithName:string_of(kernel) constantValues:values error:&error];
      if (!function) fail(ErrorCode::unsupported, "metal", "no kernel ", kernel, ": ", words_of(error));
      id<MTLComputePipelineState> state = [device_ newComputePipelineStateWithFunction:function error:&error];
      if (!state) fail(ErrorCode::unsupported, "metal", "kernel ", kernel, " has no pipeline state: ", words_of(error));
      if (state.threadExecutionWidth != NSUInteger(kSimdgroup))
        fail(ErrorCode::unsupported, "metal", "this GPU has simdgroups of ", state.threadExecutionWidth, " threads, kernels need ",
             kSimdgroup);
      return std::make_shared<ApplePipeline>(state);
    }
  }

 private:
  id<MTLDevice> device_;
  id<MTLLibrary> library_;
};

// Fills one command buffer at a time through one concurrent encoder: dispatches may overlap except across our barriers. Between command
// buffers the framework orders accesses to the same buffer.
class AppleGpu : public Gpu {
 public:
  explicit AppleGpu(id<MTLDevice> device)
      : device_(device), queue_([device newCommandQueue]), unbound_([device newBufferWithLength:256 options:MTLResourceStorageModeShared]) {
    if (!queue_ || !unbound_) fail(ErrorCode::device_fault, "metal", "no command queue on ", description());
  }

  std::string description() const override { return device_.name.UTF8String; }
  DeviceTraits traits() const override { return {.flushes = true}; }
  int64_t total_memory() const override { return int64_t(device_.recommendedMaxWorkingSetSize); }
  int64_t free_memory() const override { return std::max<int64_t>(0, total_memory() - int64_t(device_.currentAllocatedSize)); }

  void* new_buffer(int64_t bytes) override {
    if (uint64_t(bytes) > device_.maxBufferLength) return nullptr;
    id<MTLBuffer> buffer = [device_ newBufferWithLength:NSUInteger(std::max<int64_t>(bytes, 1)) options:MTLResourceStorageModeShared];
    return buffer ? const_cast<void*>((__bridge_retained const void*)buffer) : nullptr;
  }
  void delete_buffer(void* buffer) override {
    id<MTLBuffer> released = (__bridge_transfer id<MTLBuffer>)buffer;
    (void)released;
  }
  char* contents(void* buffer) override { return static_cast<char*>(((__bridge id<MTLBuffer>)buffer).contents); }

  std::shared_ptr<Library> library(const std::string& text, const std::string& name) override {
    @autoreleasepool {
      MTLCompileOptions* options = [[MTLCompileOptions alloc] init];
      options.languageVersion = MTLLanguageVersion3_1;
      if (@available(macOS 15.0, *))
        options.mathMode = MTLMathModeSafe;
      else
        options.fastMathEnabled = NO;
      NSError* error = nil;
      id<MTLLibrary> library = [device_ newLibraryWithSource:string_of(text) options:options error:&error];
      if (!library) fail(ErrorCode::unsupported, "metal", name, " does not compile: ", words_of(error));
      return std::make_shared<AppleLibrary>(device_, library);
    }
  }

  void encode(const Dispatch& d) override {
    @autoreleasepool {
      id<MTLComputeCommandEncoder> encoder = this->encoder();
      [encoder setComputePipelineState:static_cast<ApplePipeline*>(d.pipeline)->state()];
      int next = 0;
      for (const Binding& b : d.bindings) {
        for (; next < b.index; ++next)
          [encoder setBuffer:unbound_ offset:0 atIndex:NSUInteger(next)];  // Metal's validation requires a buffer at every index
        if (b.buffer)
          [encoder setBuffer:(__bridge id<MTLBuffer>)b.buffer offset:NSUInteger(b.offset) atIndex:NSUInteger(b.index)];
        else
          [encoder setBytes:b.copied length:NSUInteger(b.bytes) atIndex:NSUInteger(b.index)];
        next = b.index + 1;
      }
      if (d.threadgroup_bytes > 0) [encoder setThreadgroupMemoryLength:NSUInteger((d.threadgroup_bytes + 15) / 16 * 16) atIndex:0];
      [encoder dispatchThreadgroups:MTLSizeMake(NSUInteger(d.groups[0]), NSUInteger(d.groups[1]), NSUInteger(d.groups[2]))
              threadsPerThreadgroup:MTLSizeMake(NSUInteger(d.threads), 1, 1)];
      last_op_ = d.op;
    }
  }

  void barrier() override {
    if (encoder_) [encoder_ memoryBarrierWithScope:MTLBarrierScopeBuffers];
  }

  void commit() override {
    if (!encoder_) return;
    [encoder_ endEncoding];
    [filling_ commit];
    running_.push_back({filling_, last_op_});
    encoder_ = nil;
    filling_ = nil;
  }

  void wait() override {
    commit();
    std::vector<Running> running = std::move(running_);
    running_.clear();
    for (const Running& r : running) [r.buffer waitUntilCompleted];
    for (const Running& r : running)
      if (r.buffer.status == MTLCommandBufferStatusError)
        fail(ErrorCode::device_fault, "metal", "a command buffer on ", description(), " failed: ", words_of(r.buffer.error),
             "; its last op was ", r.last_op);
  }

  Counters counters() override { return {}; }
  void reset_counters() override {}

 private:
  struct Running {
    id<MTLCommandBuffer> buffer;
    const char* last_op;
  };

  id<MTLComputeCommandEncoder> encoder() {
    if (encoder_) return encoder_;
    filling_ = [queue_ commandBuffer];
    encoder_ = [filling_ computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
    if (!encoder_) fail(ErrorCode::device_fault, "metal", "no command encoder on ", description());
    return encoder_;
  }

  id<MTLDevice> device_;
  id<MTLCommandQueue> queue_;
  id<MTLBuffer> unbound_;
  id<MTLCommandBuffer> filling_ = nil;
  id<MTLComputeCommandEncoder> encoder_ = nil;
  const char* last_op_ = "";
  std::vector<Running> running_;
};

}  // namespace

std::string why_no_apple_gpu() {
  @autoreleasepool {
    id<MTLDevice> device = MTLCreateSystemDefaultDevice();
    if (!device) return "this Mac has no Metal device";
    // The kernels need simdgroup_matrix; every Mac with Apple silicon has it.
    return [device supportsFamily:MTLGPUFamilyApple7] ? "" : join(device.name.UTF8String, " is not a GPU of family Apple7 or later");
  }
}

std::unique_ptr<Gpu> open_apple_gpu() {
  if (const std::string why = why_no_apple_gpu(); !why.empty()) fail(ErrorCode::unsupported, "open_device", "no Metal device: ", why);
  return std::make_unique<AppleGpu>(MTLCreateSystemDefaultDevice());
}

}  // namespace weft::metal
