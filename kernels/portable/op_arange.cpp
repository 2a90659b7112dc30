#include "kernels/portable/op_arange.h"

#include "kernels/math/round.h"

namespace torch::executor::native::internal {

int32_t sequence_size(
    KernelRuntimeContext& ctx,
    const Scalar& start,
    const Scalar& end,
    const Scalar& step) {
  const float distance = scalar_to_float(step);
  KERNEL_CHECK(
      ctx, distance < 0.0f || distance > 0.0f, InvalidArgument, -1, "step is 0, or no number");
  float size;
  if (start.isFloatingPoint() || end.isFloatingPoint() || step.isFloatingPoint()) {
    size = math::ceil((scalar_to_float(end) - scalar_to_float(start)) / distance);
  } else {
    // Exact as far as a tensor's size goes; the last step may be a part of one.
    const int64_t width = step.to<int64_t>();
    const uint64_t length =
        static_cast<uint64_t>(end.to<int64_t>()) - static_cast<uint64_t>(start.to<int64_t>());
    const bool is_forward = width > 0;
    const uint64_t magnitude = is_forward ? length : 0 - length;
    const uint64_t pace =
        is_forward ? static_cast<uint64_t>(width) : 0 - static_cast<uint64_t>(width);
    const bool is_empty = static_cast<int64_t>(magnitude) <= 0;
    const uint64_t count = is_empty ? 0 : (magnitude - 1) / pace + 1;
    KERNEL_CHECK(ctx, count <= INT32_MAX, InvalidArgument, -1, "The sequence is too long");
    return static_cast<int32_t>(count);
  }
  KERNEL_CHECK(
      ctx,
      size >= 0.0f && size < 2147483648.0f,
      InvalidArgument,
      -1,
      "step leads away from end, or the sequence is too long");
  return static_cast<int32_t>(size);
}

} // namespace torch::executor::native::internal
