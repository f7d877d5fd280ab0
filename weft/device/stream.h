// One ordered queue of work on a device. Kernels never throw: what a kernel finds wrong in its data it reports here, and
// it is raised at the next synchronize or download (at once on a device that runs synchronously, such as the CPU).
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace weft {

class Device;

// Launches that were captured once and can be queued again as one, with what they read and write where it was then.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay() = 0;
};

// A moment in the order of a stream's work. Two of them tell the time between, once the stream was synchronized.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual double seconds_since(const Moment& earlier) const = 0;
};

// Told of every launch of an op: for those who measure where time goes.
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

  // How long `work`, launched on this stream, keeps the device busy.
  double seconds_of(const std::function<void()>& work);

  // Now, in stream order.
  virtual std::unique_ptr<Moment> moment();

  // From now on `watch` is told of launches (null: nobody is). A watched stream captures nothing: a graph has no launches to tell of.
  void set_watch(LaunchWatch* watch) { watch_ = watch; }
  bool watched() const { return watch_ != nullptr; }

  // Whether this stream can capture; where it cannot, capture() throws `unsupported`.
  virtual bool captures() const { return false; }

  // What `work` launches, not yet run. Memory it takes from the pool stays set aside for the graph as long as the graph
  // lives; what it reads from elsewhere the caller keeps. Sizes and numbers that `work` hands to a launch are fixed: what is
  // to change between replays lies in device memory. `work` may neither upload, download nor synchronize, and should have
  // run once before, so that kernels are loaded. Where memory runs out, cached blocks are freed and `work` is called again.
  std::unique_ptr<Graph> capture(const std::function<void()>& work);

  // Called around each launch by the op table: names the op in faults, raises at once where the stream is synchronous.
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

  // Called by a launcher (one thread at a time) when a kernel found bad data. The first report since the last raise
  // is kept.
  void report(std::string message);

  // As above for a kernel of `op`, which need not be the one launched last.
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
