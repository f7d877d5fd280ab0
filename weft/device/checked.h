// Whether this build poisons and guards every buffer, whatever DeviceOptions::checked says. Not installed: the build's own.
#pragma once

namespace weft {

#ifdef WEFT_CHECKED
inline constexpr bool kAlwaysChecked = true;
#else
inline constexpr bool kAlwaysChecked = false;
#endif

}  // namespace weft
