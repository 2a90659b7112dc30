#pragma once

#include "kernels/util/dtypes.h"
#include "kernels/util/scalars.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

namespace internal {

/// Returns the number of values from start to end, without end; fails the context (InvalidArgument)
/// and returns -1 if there is no such sequence.
int32_t sequence_size(
    KernelRuntimeContext& ctx,
    const Scalar& start,
    const Scalar& end,
    const Scalar& step);

} // namespace internal

/// aten::arange.start_out: start + i * step, computed in float for floats of up to
/// 32 bits, in int64 for integers.
template <class S>
Tensor& arange_start_out(
    KernelRuntimeContext& ctx,
    const Scalar& start,
    const Scalar& end,
    const Scalar& step,
    Tensor& out) {
  if (!check_contiguous<S>(ctx, out)) {
    return out;
  }
  if constexpr (S::has(Variant::DynamicShape)) {
    const SizesType size = internal::sequence_size(ctx, start, end, step);
    if (size < 0 || !resize_out(ctx, out, ArrayRef<SizesType>(&size, 1))) {
      return out;
    }
  } else {
    static_cast<void>(end);
  }
  dispatch<StoredRealTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_integral_v<T>, uint64_t, ComputeType<T>>;
    const auto number = [](const Scalar& scalar) {
      if constexpr (std::is_integral_v<T>) {
        return static_cast<C>(scalar_to_int(scalar));
      } else {
        return scalar_to<C>(scalar);
      }
    };
    const C first = number(start);
    const C distance = number(step);
    T* const to = out.mutable_data_ptr<T>();
    const size_t count = static_cast<size_t>(out.numel());
    for (size_t i = 0; i < count; ++i) {
      to[i] = convert<T>(first + static_cast<C>(i) * distance);
    }
  });
  return out;
}

/// aten::arange.out
template <class S>
Tensor& arange_out(KernelRuntimeContext& ctx, const Scalar& end, Tensor& out) {
  return arange_start_out<S>(ctx, Scalar(int64_t{0}), end, Scalar(int64_t{1}), out);
}

} // namespace torch::executor::native
