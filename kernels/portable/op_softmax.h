#pragma once

#include "kernels/portable/softmax.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

namespace internal {

/// Softmax over dim `axis` of tensors of one shape and any dim orders, or its logarithm.
template <bool kIsLog, class T>
void softmax_strided(const Tensor& self, size_t axis, Tensor& out) {
  int32_t from[kMaxDims];
  int32_t to[kMaxDims];
  strides_of(self, from);
  strides_of(out, to);
  Shape rows(self.sizes());
  rows.sizes[axis] = 1;
  const int32_t* const strides[] = {from, to};
  LoopNest nest;
  nest.init(rows.sizes, strides, 2, rows.dims);
  do {
    for (size_t i = 0; i < nest.size(); ++i) {
      const int32_t at = static_cast<int32_t>(i);
      softmax_row<kIsLog>(
          self.const_data_ptr<T>() + nest.offset(0) + at * nest.stride(0),
          from[axis],
          out.mutable_data_ptr<T>() + nest.offset(1) + at * nest.stride(1),
          to[axis],
          static_cast<size_t>(self.sizes()[axis]));
    }
  } while (nest.next());
}

/// aten::_softmax.out and _log_softmax.out; `half_to_float` is for the GPU.
template <class S, bool kIsLog>
Tensor& softmax_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t dim,
    bool half_to_float,
    Tensor& out) {
  KERNEL_CHECK(ctx, !half_to_float, NotSupported, out, "half_to_float is not supported");
  const int32_t index = normalize_dim(ctx, dim, self.dim());
  if (index < 0 || !same_dtype_or_fail(ctx, self, out) || !shape_like<S>(ctx, out, self)) {
    return out;
  }
  const auto sizes = self.sizes();
  const size_t axis = static_cast<size_t>(index);
  if constexpr (S::has(Variant::DimOrder)) {
    if (!is_contiguous(self) || !is_contiguous(out)) {
      if (shape_out<S>(ctx, out, sizes) && self.numel() > 0) {
        dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
          softmax_strided<kIsLog, typename decltype(tag)::type>(self, axis, out);
        });
      }
      return out;
    }
  }
  size_t inner = 1;
  for (size_t i = axis + 1; i < sizes.size(); ++i) {
    inner *= static_cast<size_t>(sizes[i]);
  }
  dispatch<StoredFloatTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = self.const_data_ptr<T>();
    T* const to = out.mutable_data_ptr<T>();
    const size_t count = static_cast<size_t>(self.numel());
    const size_t size = sizes.size() == 0 ? 1 : static_cast<size_t>(sizes[axis]);
    if constexpr (std::is_same_v<T, float> && !kIsLog) {
      softmax(from, to, count, size, inner);
    } else {
      softmax_of<kIsLog>(from, to, count, size, inner);
    }
  });
  return out;
}

} // namespace internal

template <class S>
constexpr auto& softmax_out = internal::softmax_out<S, false>;
template <class S>
constexpr auto& log_softmax_out = internal::softmax_out<S, true>;

} // namespace torch::executor::native
