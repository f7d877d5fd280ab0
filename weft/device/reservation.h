// The pool's memory that belongs to a captured graph, from the capture until it is destroyed. Keeps the device alive.
#pragma once

#include <memory>

#include "weft/device/device.h"

namespace weft {

class Reservation {
 public:
  explicit Reservation(Device& device) : device_(device.shared_from_this()), number_(device.pool().begin_reservation()) {}
  ~Reservation() {
    end();
    device_->pool().unreserve(number_);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // Ends the capture: later allocations are no longer the graph's.
  void end() {
    if (open_) device_->pool().end_reservation();
    open_ = false;
  }

 private:
  std::shared_ptr<Device> device_;
  const int64_t number_;
  bool open_ = true;
};

}  // namespace weft
