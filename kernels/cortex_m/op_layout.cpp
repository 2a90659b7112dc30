#include "kernels/cortex_m/op_layout.h"

#include <cstring>

#include "kernels/util/loop_nest.h"

namespace torch::executor::native::cortex_m {

int32_t count_matrices(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    int64_t rows,
    int64_t columns,
    int64_t unit,
    const Tensor& out) {
  if (!check_int8(ctx, input, out)) {
    return 0;
  }
  const auto count = static_cast<int32_t>(input.numel());
  const bool are_in_range =
      rows > 0 && columns > 0 && unit > 0 && rows <= count && columns <= count && unit <= count;
  const int64_t row = are_in_range ? columns * unit : 0;
  const int64_t matrix = row <= count ? row * rows : 0;
  CHECK_ARGUMENT(
      ctx,
      out.numel() == count && matrix > 0 && matrix <= count &&
          count % static_cast<int32_t>(matrix) == 0,
      "The tensors are not matrices of these sizes");
  return count / static_cast<int32_t>(matrix);
}

bool check_pad(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const ArrayRef<int64_t>& pre_pad,
    const ArrayRef<int64_t>& post_pad,
    int64_t pad_value,
    const Tensor& out,
    PadShape& shape,
    Shape& sizes) {
  const size_t dims = static_cast<size_t>(input.dim());
  CHECK_ARGUMENT(
      ctx,
      dims >= 1 && dims <= 4 && pre_pad.size() == 4 && post_pad.size() == 4,
      "The tensor to pad does not have one to four dims, or a list four elements");
  if (!check_int8(ctx, input, out) || !in_range(ctx, pre_pad, 0, 0x7fff) ||
      !in_range(ctx, post_pad, 0, 0x7fff)) {
    return false;
  }
  CHECK_ARGUMENT(ctx, pad_value >= -128 && pad_value <= 127, "The value to pad with is not int8");
  // This is the dim at each position in memory. The dialect treats tensors with an ambiguous memory
  // order (one channel, or one pixel) as channels last.
  uint8_t order[4] = {0, 1, 2, 3};
  const auto in_sizes = input.sizes();
  if (dims == 4 &&
      (in_sizes[1] == 1 || (in_sizes[2] == 1 && in_sizes[3] == 1) || input.dim_order()[1] == 2)) {
    const uint8_t channels_last[4] = {0, 2, 3, 1};
    std::memcpy(order, channels_last, sizeof(order));
  }
  int32_t strides[kMaxDims];
  strides_of(input, strides);
  SizesType out_sizes[4];
  int32_t step = 1;
  for (size_t i = 4; i-- > 0;) {
    shape.before[i] = static_cast<int32_t>(pre_pad[i]);
    shape.after[i] = static_cast<int32_t>(post_pad[i]);
    shape.sizes[i] = 1;
    if (i + dims < 4) {
      CHECK_ARGUMENT(
          ctx,
          shape.before[i] == 0 && shape.after[i] == 0,
          "A dim is padded that the tensor does not have");
      continue;
    }
    const size_t dim = order[i] - (4 - dims);
    shape.sizes[i] = in_sizes[dim];
    KERNEL_CHECK(
        ctx,
        shape.sizes[i] == 1 || strides[dim] == step,
        NotSupported,
        false,
        "The tensor to pad is neither contiguous nor channels last");
    step *= shape.sizes[i];
    // Overflow gives a negative size, which no tensor has.
    out_sizes[dim] = wrapping_add(shape.before[i] + shape.after[i], shape.sizes[i]);
  }
  for (size_t i = 0; i < dims; ++i) {
    sizes.append(out_sizes[i]);
  }
  if (static_cast<size_t>(out.dim()) == dims) {
    strides_of(out, strides);
    step = 1;
    for (size_t i = 4; i-- > 4 - dims;) {
      const size_t dim = order[i] - (4 - dims);
      KERNEL_CHECK(
          ctx,
          out.sizes()[dim] == 1 || strides[dim] == step,
          NotSupported,
          false,
          "A padded tensor lies in another dim order than the input");
      step *= out.sizes()[dim];
    }
  }
  return true;
}

} // namespace torch::executor::native::cortex_m
