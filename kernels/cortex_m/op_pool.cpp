#include "kernels/cortex_m/op_pool.h"

namespace torch::executor::native::cortex_m {

bool check_pool(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const ArrayRef<int64_t>& kernel_size,
    const ArrayRef<int64_t>& stride,
    const ArrayRef<int64_t>& padding,
    bool ceil_mode,
    const Tensor& out,
    PoolWindows& windows,
    Shape& sizes) {
  CHECK_ARGUMENT(
      ctx,
      kernel_size.size() == 1 || kernel_size.size() == 2,
      "kernel_size does not have one or two elements");
  Image image;
  if (!check_int8(ctx, input, out) || !in_range(ctx, kernel_size, 1, 0x7fff) ||
      !describe_image(ctx, input, image)) {
    return false;
  }
  Window& height = windows.height;
  Window& width = windows.width;
  height.in = image.height;
  width.in = image.width;
  height.kernel = static_cast<int32_t>(kernel_size[0]);
  width.kernel = static_cast<int32_t>(kernel_size[kernel_size.size() - 1]);
  if (!height.set(ctx, stride, padding, {}, 0, ceil_mode) ||
      !width.set(ctx, stride, padding, {}, 1, ceil_mode)) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      2 * height.padding <= height.kernel && 2 * width.padding <= width.kernel &&
          image.height > 0 && image.width > 0,
      "padding is more than half of kernel_size, or input has an empty plane");
  for (size_t i = 0; i + 2 < input.sizes().size(); ++i) {
    sizes.append(input.sizes()[i]);
  }
  sizes.append(height.out);
  sizes.append(width.out);
  return true;
}

} // namespace torch::executor::native::cortex_m
