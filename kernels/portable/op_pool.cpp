#include "kernels/portable/op_pool.h"

#include "kernels/util/view.h"

namespace torch::executor::native {

bool check_pool(KernelRuntimeContext& ctx, const PoolArguments& arguments, PreparedPool& prepared) {
  const auto& [self, kernel_size, stride, padding, dilation, ceil_mode] = arguments;
  Window& height = prepared.height;
  Window& width = prepared.width;
  const auto sizes = self.sizes();
  const size_t dims = sizes.size();
  CHECK_ARGUMENT(ctx, dims == 3 || dims == 4, "self has %zu dims; pooling takes 3 or 4", dims);
  CHECK_ARGUMENT(
      ctx,
      kernel_size.size() == 1 || kernel_size.size() == 2,
      "kernel_size does not have one or two elements");
  if (!in_range(ctx, kernel_size, 1, 0x7fff)) {
    return false;
  }
  height.in = sizes[dims - 2];
  width.in = sizes[dims - 1];
  height.kernel = static_cast<int32_t>(kernel_size[0]);
  width.kernel = static_cast<int32_t>(kernel_size[kernel_size.size() - 1]);
  if (!height.set(ctx, stride, padding, dilation, 0, ceil_mode) ||
      !width.set(ctx, stride, padding, dilation, 1, ceil_mode)) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      2 * height.padding <= height.kernel && 2 * width.padding <= width.kernel,
      "padding is more than half of kernel_size");
  CHECK_ARGUMENT(ctx, height.in > 0 && width.in > 0, "self has an empty plane");
  prepared.planes = 1;
  for (size_t i = 0; i + 2 < dims; ++i) {
    prepared.planes *= sizes[i];
    prepared.sizes.append(sizes[i]);
  }
  prepared.sizes.append(height.out);
  prepared.sizes.append(width.out);
  return true;
}

bool planes_of(KernelRuntimeContext& ctx, const Tensor& image, StridedPlanes& planes) {
  const View view(image);
  const size_t dims = view.shape.dims;
  const int32_t* const strides = view.strides + dims - 3;
  planes.channels = view.shape.sizes[dims - 3];
  planes.image_step = dims == 4 ? view.strides[0] : 0;
  planes.plane_step = strides[0];
  planes.pixel_step = strides[2];
  KERNEL_CHECK(
      ctx,
      strides[1] == strides[2] * view.shape.sizes[dims - 1],
      NotSupported,
      false,
      "The rows of an image do not follow one another");
  return true;
}

bool check_adaptive_pool(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const ArrayRef<int64_t>& output_size,
    const Tensor& out,
    Shape& out_sizes,
    int32_t& planes) {
  const auto sizes = self.sizes();
  const size_t dims = sizes.size();
  CHECK_ARGUMENT(
      ctx,
      (dims == 3 || dims == 4) && output_size.size() == 2 && sizes[dims - 2] >= 1 &&
          sizes[dims - 1] >= 1,
      "self is not [(N,) C, height, width], or output_size does not have two elements");
  if (!same_dtype_or_fail(ctx, self, out) || !in_range(ctx, output_size, 0, 0xffffff)) {
    return false;
  }
  planes = 1;
  for (size_t i = 0; i + 2 < dims; ++i) {
    planes *= sizes[i];
    out_sizes.append(sizes[i]);
  }
  out_sizes.append(static_cast<int32_t>(output_size[0]));
  out_sizes.append(static_cast<int32_t>(output_size[1]));
  return true;
}

} // namespace torch::executor::native
