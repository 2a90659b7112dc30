#include "kernels/cortex_m/image.h"

#include "kernels/util/loop_nest.h"

namespace torch::executor::native::cortex_m {

bool describe_image(KernelRuntimeContext& ctx, const Tensor& tensor, Image& image) {
  const size_t dims = tensor.sizes().size();
  CHECK_ARGUMENT(
      ctx, dims == 3 || dims == 4, "A tensor has %zu dims; the operator takes 3 or 4", dims);
  int32_t strides[kMaxDims];
  strides_of(tensor, strides);
  const size_t first = dims - 3;
  image.batch = first == 0 ? 1 : tensor.sizes()[0];
  image.batch_step = first == 0 ? 0 : strides[0];
  image.channels = tensor.sizes()[first];
  image.height = tensor.sizes()[first + 1];
  image.width = tensor.sizes()[first + 2];
  image.channel_step = strides[first];
  image.row_step = strides[first + 1];
  image.column_step = strides[first + 2];
  return true;
}

bool is_channels_last(const Image& image) {
  const int32_t row = image.channels * image.width;
  return (image.channel_step == 1 || image.channels == 1) &&
      (image.column_step == image.channels || image.width == 1) &&
      (image.row_step == row || image.height == 1) &&
      (image.batch_step == row * image.height || image.batch == 1);
}

bool has_channels_last(const Tensor& tensor) {
  const auto order = tensor.dim_order();
  const size_t dims = order.size();
  bool result = dims >= 2 && order[0] == 0 && order[dims - 1] == 1;
  for (size_t i = 1; i + 1 < dims; ++i) {
    result = result && order[i] == i + 1;
  }
  return result;
}

bool check_pair(KernelRuntimeContext& ctx, const ArrayRef<int64_t>& values, int32_t low) {
  CHECK_ARGUMENT(ctx, values.size() == 2, "A list does not have two elements");
  return in_range(ctx, values, low, 0x7fff);
}

} // namespace torch::executor::native::cortex_m
