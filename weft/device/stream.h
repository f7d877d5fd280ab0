// One ordered queue of work on a device. Kernels never throw: a kernel that finds bad data reports a fault here, which is
// raised at the next synchronize or download (at once on a device that runs synchronously, such as the CPU).
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace weft {

class Device;

// Launches that were captured once and can be queued again as one. They read and write the memory they were captured with.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay() = 0;
};

// A timestamp in a stream's order of work. Two of them give the time between, once the stream was synchronized.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual double seconds_since(const Moment& earlier) const = 0;
};

// Called around every launch of an op: for profiling.
class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  virtual void before(const char* op) = 0;
  virtual void after() = 0;
};

class Stream {
 public:
  explicit Stream(Device& device) : device_(device) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  virtual bool synchronous() const = 0;

  // Waits for everything launched so far, then raises the first fault reported since the last call.
  void synchronize();

  // Seconds for which `work`, launched on this stream, keeps the device busy.
  double seconds_of(const std::function<void()>& work);

  // A timestamp, in stream order.
  virtual std::unique_ptr<Moment> moment();

  // From now on `watch` is called around launches (null: none is). A watched stream captures nothing: a replayed graph has no launches.
  void set_watch(LaunchWatch* watch) { watch_ = watch; }
  bool watched() const { return watch_ != nullptr; }

  // Whether this stream can capture. If not, capture() throws `unsupported`.
  virtual bool captures() const { return false; }

  // Captures the launches of `work` without running them. Memory that `work` takes from the pool stays reserved for the graph as
  // long as the graph lives; the caller keeps other memory that it reads. Sizes and numbers passed to a launch are fixed: values
  // that change between replays are in device memory. `work` must not upload, download or synchronize, and should have
  // run once before, so that kernels are loaded. If memory runs out, cached blocks are freed and `work` is called again.
  std::unique_ptr<Graph> capture(const std::function<void()>& work);

  // Called by the op table around each launch: names the op in faults, raises at once if the stream is synchronous.
  void launching(const char* op) {
    last_op_ = op;
    if (watch_) [[unlikely]]
      watch_->before(op);
  }
  void launched() {
    if (watch_) [[unlikely]]
      watch_->after();
    if (synchronous()) raise_fault();
  }

  // Called by a launcher (one thread at a time) when a kernel found bad data. Keeps the first report since the last raise.
  void report(std::string message);

  // As above for a kernel of `op`, which may not be the last one launched.
  void report(const char* op, std::string message);

 protected:
  const char* last_op() const { return last_op_; }
  virtual void wait() = 0;
  virtual std::unique_ptr<Graph> capture_once(const std::function<void()>& work);

 private:
  void raise_fault();

  Device& device_;
  const char* last_op_ = "";
  LaunchWatch* watch_ = nullptr;
  std::string fault_op_, fault_;
};

}  // namespace weft
