#include "runtime/kernel/constant_data.h"

namespace executorch::runtime::internal {

// The build has checked the writes of compiled programs. If a runtime is linked, too, its
// definition is used.
[[gnu::weak]] TORCH_FUSION_THREAD_LOCAL ConstantData constant_data = {0, 0};

} // namespace executorch::runtime::internal
