#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

namespace executorch {
namespace runtime {
namespace internal {

/// Makes a tensor a view: gives it another one's memory, and no room to grow beyond that.
void make_view(const executorch::aten::Tensor& view, const executorch::aten::Tensor& base);

} // namespace internal
} // namespace runtime
} // namespace executorch
