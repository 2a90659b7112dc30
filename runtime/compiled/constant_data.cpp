#include "runtime/kernel/constant_data.h"

namespace executorch {
namespace runtime {
namespace internal {

// Of compiled programs the build has checked what they write to. Where a runtime is linked, too,
// its definition is taken.
[[gnu::weak]] TORCH_FUSION_THREAD_LOCAL ConstantData constant_data = {0, 0};

} // namespace internal
} // namespace runtime
} // namespace executorch
