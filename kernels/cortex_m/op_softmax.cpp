#include "kernels/cortex_m/op_softmax.h"

namespace torch::executor::native::cortex_m {

namespace {

/// SOFTMAX_INPUT_INTEGER_BITS of the dialect's Python: inputs are scaled to that many bits before
/// the point of a 32-bit number.
constexpr int32_t kIntegerBits = 5;

} // namespace

bool check_softmax(
    KernelRuntimeContext& ctx,
    const SoftmaxArguments& arguments,
    const Tensor& out,
    PreparedSoftmax& prepared) {
  const Tensor& input = arguments.input;
  prepared.dim = normalize_dim(ctx, arguments.dim, input.dim());
  Factor factor;
  if (prepared.dim < 0 || !check_int8(ctx, input, out) ||
      !check_offset(ctx, arguments.input_zero_point, prepared.zero_point) ||
      !check_factor(ctx, arguments.input_multiplier, arguments.input_shift, factor)) {
    return false;
  }
  CHECK_ARGUMENT(
      ctx,
      arguments.output_zero_point == -128,
      "The output's zero point of a softmax has to be -128");
  CHECK_ARGUMENT(ctx, factor.multiplier > 0, "The input's scale of a softmax is not positive");
  CHECK_ARGUMENT(
      ctx,
      out.dim() == input.dim() && same_dim_order(input, out),
      "input and out lie in different dim orders");
  prepared.scale = scale_of(factor) * (1.0f / static_cast<float>(1 << (31 - kIntegerBits)));
  return true;
}

int32_t check_softmax_by_table(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& exponentials,
    int64_t dim,
    const Tensor& out) {
  // One for every difference of two values.
  constexpr size_t kEntries = 256;
  const int32_t index = normalize_dim(ctx, dim, input.dim());
  if (index < 0 || !check_int8(ctx, input, out) ||
      !dtype_or_fail(ctx, exponentials, ScalarType::Short, "exponentials")) {
    return -1;
  }
  // Overwriting values that are still to be read could make them exceed the maximum, which the
  // table doesn't cover.
  const auto from = reinterpret_cast<uintptr_t>(input.const_data_ptr());
  const auto to = reinterpret_cast<uintptr_t>(out.const_data_ptr());
  const size_t size = input.nbytes();
  KERNEL_CHECK(
      ctx,
      static_cast<size_t>(exponentials.numel()) == kEntries && same_dim_order(input, out) &&
          (to <= from || from + size <= to),
      InvalidArgument,
      -1,
      "A softmax has 256 exponentials, and an output that lies as its input does, not behind its "
      "start");
  return index;
}

bool check_row_masks(
    KernelRuntimeContext& ctx,
    const Tensor& input,
    const Tensor& mask,
    int64_t repeats,
    const Tensor& out,
    RowMasks& masks) {
  if (!check_int8(ctx, mask)) {
    return false;
  }
  const auto size = static_cast<int64_t>(input.numel());
  const auto given = static_cast<int64_t>(mask.numel());
  // A mask that changes during the computation could let values through that exceed the maximum.
  const auto from = reinterpret_cast<uintptr_t>(mask.const_data_ptr());
  const auto to = reinterpret_cast<uintptr_t>(out.const_data_ptr());
  CHECK_ARGUMENT(
      ctx,
      mask.dim() == 3 && given > 0 && input.dim() > 0 &&
          mask.sizes()[2] == input.sizes()[static_cast<size_t>(input.dim() - 1)] && repeats > 0 &&
          repeats <= size && size % (repeats * given) == 0 &&
          (to + out.nbytes() <= from || from + mask.nbytes() <= to),
      "A softmax has masks of [outer, inner, count] for [..., outer, repeats, inner, count], which "
      "its output does not lie over");
  masks.masks = mask.const_data_ptr<int8_t>();
  masks.outer = static_cast<size_t>(mask.sizes()[0]);
  masks.repeats = static_cast<size_t>(repeats);
  masks.inner = static_cast<size_t>(mask.sizes()[1]);
  masks.count = static_cast<size_t>(mask.sizes()[2]);
  return true;
}

} // namespace torch::executor::native::cortex_m
