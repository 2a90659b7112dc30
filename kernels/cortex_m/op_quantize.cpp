#include "kernels/cortex_m/op_quantize.h"

namespace torch::executor::native::cortex_m {

float check_quantization(
    KernelRuntimeContext& ctx,
    double scale,
    int64_t zero_point,
    int64_t quant_min,
    int64_t quant_max,
    ScalarType dtype,
    Quantization& quantization) {
  const float factor = float_of(scale);
  CHECK_ARGUMENT(
      ctx,
      factor >= kMinScale && factor <= kMaxScale,
      "The scale is not positive, or out of range");
  const int32_t limit = dtype == ScalarType::Short ? 0x8000 : 0x80;
  CHECK_ARGUMENT(
      ctx,
      zero_point >= -limit && zero_point < limit && quant_min >= -limit && quant_min <= quant_max &&
          quant_max < limit,
      "The zero point, or the range of values, is out of the dtype's range");
  quantization.zero_point = static_cast<float>(static_cast<int32_t>(zero_point));
  quantization.min = static_cast<float>(static_cast<int32_t>(quant_min));
  quantization.max = static_cast<float>(static_cast<int32_t>(quant_max));
  return factor;
}

} // namespace torch::executor::native::cortex_m
