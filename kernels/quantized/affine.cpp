#include "kernels/quantized/affine.h"

namespace torch::executor::native {

bool QuantizedRange::init(
    KernelRuntimeContext& ctx,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    const Tensor& quantized) {
  if (!dtype_or_fail(ctx, quantized, dtype, "The quantized tensor")) {
    return false;
  }
  int64_t lowest = INT32_MIN;
  int64_t highest = INT32_MAX;
  if (dtype == ScalarType::Byte) {
    lowest = 0;
    highest = UINT8_MAX;
  } else if (dtype == ScalarType::Char) {
    lowest = INT8_MIN;
    highest = INT8_MAX;
  } else if (dtype == ScalarType::Short) {
    lowest = INT16_MIN;
    highest = INT16_MAX;
  }
  CHECK_ARGUMENT(
      ctx,
      quant_min >= lowest && quant_max <= highest && quant_min <= quant_max,
      "quant_min %d and quant_max %d are no range of dtype %d",
      static_cast<int>(quant_min),
      static_cast<int>(quant_max),
      static_cast<int>(dtype));
  low = static_cast<int32_t>(quant_min);
  high = static_cast<int32_t>(quant_max);
  return true;
}

float number_at(const Tensor& tensor, size_t index) {
  const void* const data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return static_cast<const float*>(data)[index];
    case ScalarType::Double:
      return float_of(static_cast<const double*>(data)[index]);
    case ScalarType::Half:
      return static_cast<const executorch::aten::Half*>(data)[index];
    case ScalarType::BFloat16:
      return static_cast<const executorch::aten::BFloat16*>(data)[index];
    case ScalarType::Long:
      return float_of_int(static_cast<const int64_t*>(data)[index]);
    case ScalarType::Int:
      return static_cast<float>(static_cast<const int32_t*>(data)[index]);
    case ScalarType::Char:
      return static_cast<const int8_t*>(data)[index];
    default:
      return static_cast<const uint8_t*>(data)[index];
  }
}

bool check_numbers(KernelRuntimeContext& ctx, const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
    case ScalarType::Double:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Long:
    case ScalarType::Int:
    case ScalarType::Char:
    case ScalarType::Byte:
      return contiguous_or_fail(ctx, tensor);
    default:
      break;
  }
  ET_LOG(Error, "Scales or zero points are of dtype %d", static_cast<int>(tensor.scalar_type()));
  ctx.fail(Error::InvalidType);
  return false;
}

bool AffineParameters::check(KernelRuntimeContext& ctx, size_t channels) const {
  for (const Tensor* tensor : {scales_, zero_points_}) {
    if (tensor == nullptr) {
      continue;
    }
    CHECK_ARGUMENT(
        ctx,
        static_cast<size_t>(tensor->numel()) == channels,
        "There are %d scales or zero points for %d channels",
        static_cast<int>(tensor->numel()),
        static_cast<int>(channels));
    if (!check_numbers(ctx, *tensor)) {
      return false;
    }
  }
  return true;
}

} // namespace torch::executor::native
