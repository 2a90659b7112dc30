#include "kernels/cortex_m/requantize.h"

#include <cstring>

namespace torch::executor::native::cortex_m {

int32_t requantize_wide(int32_t value, Factor factor) {
  const uint32_t left = factor.shift > 0 ? static_cast<uint32_t>(factor.shift) : 0;
  const uint32_t right = factor.shift < 0 ? static_cast<uint32_t>(-factor.shift) : 0;
  const uint64_t shifted = static_cast<uint64_t>(static_cast<int64_t>(value)) << left;
  const uint64_t product = shifted * static_cast<uint64_t>(static_cast<int64_t>(factor.multiplier));
  int64_t result = static_cast<int64_t>(product + (uint64_t{1} << 30)) >> 31;
  if (right > 0) {
    const int64_t half = int64_t{1} << (right - 1);
    result = (result + half - (result < 0 ? 1 : 0)) >> right;
  }
  return static_cast<int32_t>(result);
}

float scale_of(Factor factor) {
  // 2^(shift - 31) as the bits of a float.
  const uint32_t bits = static_cast<uint32_t>(factor.shift - 31 + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return static_cast<float>(factor.multiplier) * power;
}

bool check_factor(KernelRuntimeContext& ctx, int64_t multiplier, int64_t shift, Factor& factor) {
  CHECK_ARGUMENT(
      ctx,
      multiplier == static_cast<int32_t>(multiplier) && shift >= kMinShift && shift <= kMaxShift,
      "A multiplier or shift is out of range");
  factor.multiplier = static_cast<int32_t>(multiplier);
  factor.shift = static_cast<int32_t>(shift);
  return true;
}

bool check_offset(KernelRuntimeContext& ctx, int64_t value, int32_t& offset, int32_t limit) {
  CHECK_ARGUMENT(ctx, value >= -limit && value < limit, "A zero point is out of range");
  offset = static_cast<int32_t>(value);
  return true;
}

bool check_range(KernelRuntimeContext& ctx, int64_t min, int64_t max, Range& range) {
  CHECK_ARGUMENT(
      ctx,
      min >= -128 && min <= max && max <= 127,
      "The activation's range is empty or not within int8");
  range.min = static_cast<int32_t>(min);
  range.max = static_cast<int32_t>(max);
  return true;
}

bool int8_or_fail(KernelRuntimeContext& ctx, const Tensor& tensor) {
  return dtype_or_fail(ctx, tensor, ScalarType::Char, "A tensor");
}

} // namespace torch::executor::native::cortex_m
