#include "kernels/quantized/op_embedding.h"

#include "kernels/util/optional_tensor.h"

namespace torch::executor::native {

bool QuantizedTable::init(
    KernelRuntimeContext& ctx,
    const Tensor& weights,
    const Tensor& weight_scales,
    const std::optional<Tensor>& weight_zero_points,
    int64_t quant_min,
    int64_t quant_max,
    const Tensor& indices,
    int32_t bits_per_weight,
    Shape& out_sizes) {
  weight = &weights;
  scales = &weight_scales;
  zero_points = tensor_or_null(weight_zero_points);
  bits = bits_per_weight;
  const ScalarType dtype = weights.scalar_type();
  KERNEL_CHECK(
      ctx,
      dtype == ScalarType::Byte || (dtype == ScalarType::Char && bits == 8),
      InvalidType,
      false,
      "weight is of dtype %d",
      static_cast<int>(dtype));
  CHECK_ARGUMENT(ctx, weights.dim() == 2, "weight does not have 2 dims");
  const int64_t half_range = int64_t{1} << (bits - 1);
  CHECK_ARGUMENT(
      ctx,
      bits == 8 || (quant_min == -half_range && quant_max == half_range - 1),
      "weight_quant_min and weight_quant_max are not what packed weights have");
  const int32_t rows = weights.sizes()[0];
  const int32_t packed = 8 / bits;
  const int32_t bytes = weights.sizes()[1];
  CHECK_ARGUMENT(ctx, bytes <= INT32_MAX / packed, "The rows are too long");
  width = bytes * packed;
  const auto scale_sizes = weight_scales.sizes();
  const bool has_groups = scale_sizes.size() == 2;
  groups = has_groups ? scale_sizes[1] : 1;
  CHECK_ARGUMENT(
      ctx,
      (has_groups || scale_sizes.size() == 1) && scale_sizes[0] == rows && groups > 0 &&
          width % groups == 0,
      "weight_scales does not fit weight");
  group = width / groups;
  CHECK_ARGUMENT(
      ctx,
      zero_points == nullptr || zero_points->numel() == weight_scales.numel(),
      "weight_zero_points does not fit weight_scales");
  CHECK_ARGUMENT(ctx, static_cast<size_t>(indices.dim()) < kMaxDims, "indices has too many dims");
  out_sizes = Shape(indices.sizes());
  out_sizes.append(width);
  return contiguous_or_fail(ctx, weights) && check_numbers(ctx, weight_scales) &&
      (zero_points == nullptr || check_numbers(ctx, *zero_points));
}

float QuantizedTable::weight_at(int32_t row, int32_t column) const {
  const uint8_t* const bytes = static_cast<const uint8_t*>(weight->const_data_ptr());
  const int32_t packed = 8 / bits;
  const uint8_t byte = bytes[row * (width / packed) + column / packed];
  if (bits == 8) {
    return weight->scalar_type() == ScalarType::Char ? static_cast<int8_t>(byte) : byte;
  }
  const int32_t place = column % packed;
  const int32_t shift = bits == 4 ? 4 * (1 - place) : 2 * place;
  const int32_t mask = (1 << bits) - 1;
  return static_cast<float>(((byte >> shift) & mask) - (1 << (bits - 1)));
}

} // namespace torch::executor::native
