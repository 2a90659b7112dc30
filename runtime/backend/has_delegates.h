#pragma once

namespace executorch::runtime::internal {

/// False in the runtime of images whose programs have no delegates, which leaves out what runs
/// them: //runtime:runtime_without_delegates.
#ifdef TORCH_FUSION_WITHOUT_DELEGATES
inline constexpr bool kHasDelegates = false;
#else
inline constexpr bool kHasDelegates = true;
#endif

} // namespace executorch::runtime::internal
