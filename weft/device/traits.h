// What sets a device apart from hardware that computes at full speed by IEEE's rules.
#pragma once

namespace weft {

struct DeviceTraits {
  bool simulated = false;        // thread by thread on the processor: for small cases, and its times say nothing
  bool checks_accesses = false;  // every one of them, and so is slower still
  bool flushes = false;          // numbers below the smallest normal one may be taken as zero
};

}  // namespace weft
