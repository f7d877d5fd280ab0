// Capture and replay: the launches of one closure as a graph of the driver's, and the pool's memory reserved for it.
#include "weft/device/reservation.h"
#include "weft/tile/cuda/modules.h"
#include "weft/tile/cuda/runtime.h"

namespace weft::cuda {
namespace {

// The graph of a planned device: nothing is launched, but the pool reserves its memory.
class PlannedGraph : public Graph {
 public:
  explicit PlannedGraph(std::unique_ptr<Reservation> memory) : memory_(std::move(memory)) {}
  void replay() override {}

 private:
  std::unique_ptr<Reservation> memory_;
};

class CudaGraph : public Graph {
 public:
  CudaGraph(CudaStream& stream, cudaGraphExec_t graph, std::unique_ptr<Reservation> memory, Modules::Held kernels)
      : stream_(stream), graph_(graph), memory_(std::move(memory)), kernels_(std::move(kernels)) {}
  ~CudaGraph() override {
    cudaSetDevice(stream_.index());
    cudaStreamSynchronize(stream_.handle());  // it may be running
    cudaGraphExecDestroy(graph_);
  }
  void replay() override {
    stream_.not_while_capturing("replay", "replaying a graph");
    cudaSetDevice(stream_.index());
    stream_.launching("a captured graph");
    require(cudaGraphLaunch(graph_, stream_.handle()), "replay", "launching a captured graph");
  }

 private:
  CudaStream& stream_;
  cudaGraphExec_t graph_;
  std::unique_ptr<Reservation> memory_;  // keeps the device too
  Modules::Held kernels_;                // compiled ones that it launches
};

}  // namespace

std::unique_ptr<Graph> CudaStream::capture_once(const std::function<void()>& work) {
  not_while_capturing("capture", "another capture");
  cudaSetDevice(index_);
  auto memory = std::make_unique<Reservation>(device());
  if (planned_) {
    work();
    memory->end();
    return std::make_unique<PlannedGraph>(std::move(memory));
  }
  // Relaxed: memory that the pool does not have yet may be obtained on the way.
  require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "capture", "beginning");
  capturing_ = true;
  Modules::Held kernels;
  modules(*this).hold(&kernels);
  std::exception_ptr thrown;
  try {
    work();
  } catch (...) {
    thrown = std::current_exception();
  }
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &captured);
  capturing_ = false;
  modules(*this).hold(nullptr);
  memory->end();
  const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> owned(captured, cudaGraphDestroy);
  if (thrown) {
    cudaGetLastError();
    std::rethrow_exception(thrown);
  }
  require(ended, "capture", "ending");
  cudaGraphExec_t made = nullptr;
  require(cudaGraphInstantiate(&made, captured, 0), "capture", "making a graph of the launches");
  return std::make_unique<CudaGraph>(*this, made, std::move(memory), std::move(kernels));
}

}  // namespace weft::cuda
