#pragma once

#include <cstdint>

#include <executorch/runtime/core/exec_aten/exec_aten.h>

namespace executorch::runtime::internal {

/// The largest stride of a tensor without elements may span so much, in bytes when it is made and
/// in elements when it is resized: kernels walk along sizes that no memory bounds.
constexpr uint32_t kMaxEmptySpan = 1u << 24;

/// Makes a tensor a view: gives it another one's memory, and no room to grow beyond that.
void make_view(const executorch::aten::Tensor& view, const executorch::aten::Tensor& base);

} // namespace executorch::runtime::internal
