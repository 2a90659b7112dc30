#pragma once

#include "kernels/portable/op_reduce.h"

namespace torch::executor::native {

/// The shape of the k largest along a dim; fails the context (InvalidArgument)
/// and returns false if there are not that many.
bool topk_sizes(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t k,
    int64_t dim,
    int32_t& axis,
    Shape& out_sizes);

/// Returns whether an element belongs before another: NaN is larger than all numbers.
template <bool kLargest, class T>
bool ranks_before(T a, T b) {
  const auto x = convert<ComputeType<T>>(a);
  const auto y = convert<ComputeType<T>>(b);
  return kLargest ? precedes<true>(x, y) : precedes<true>(y, x);
}

/**
 * Inserts elements of a dim one by one into the sorted ones found so far.
 */
template <bool kLargest, class T>
void find_topk(
    const T* elements,
    int32_t from,
    int32_t count,
    T* values,
    int32_t to,
    int64_t* indices,
    int32_t places,
    int32_t k) {
  int32_t found = 0;
  for (int32_t i = 0; i < count; ++i) {
    const T element = elements[i * from];
    int32_t at = found;
    while (at > 0 && ranks_before<kLargest>(element, values[(at - 1) * to])) {
      --at;
    }
    if (at == k) {
      continue;
    }
    found = found < k ? found + 1 : k;
    for (int32_t n = found - 1; n > at; --n) {
      values[n * to] = values[(n - 1) * to];
      indices[n * places] = indices[(n - 1) * places];
    }
    values[at * to] = element;
    indices[at * places] = i;
  }
}

/// aten::topk.values: sorted in any case, equal elements in the order they come.
template <class S>
void topk_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    int64_t k,
    int64_t dim,
    bool largest,
    bool /*sorted*/,
    Tensor& values,
    Tensor& indices) {
  Shape out_sizes;
  int32_t axis = 0;
  if (!dtype_or_fail(ctx, indices, ScalarType::Long, "indices") ||
      !same_dtype_or_fail(ctx, self, values) || !topk_sizes(ctx, self, k, dim, axis, out_sizes) ||
      !shape_out<S>(ctx, values, out_sizes) || !shape_out<S>(ctx, indices, out_sizes)) {
    return;
  }
  int32_t strides[3][kMaxDims] = {};
  strides_of(self, strides[0]);
  strides_of(values, strides[1]);
  strides_of(indices, strides[2]);
  const int32_t found = out_sizes.dims == 0 ? 1 : out_sizes.sizes[axis];
  const int32_t count = out_sizes.dims == 0 ? 1 : self.sizes()[static_cast<size_t>(axis)];
  // A zero-dim tensor is its own result, whatever k.
  if (found == 0) {
    return;
  }
  if (out_sizes.dims > 0) {
    out_sizes.sizes[axis] = 1;
  }
  const int32_t* const all[] = {strides[0], strides[1], strides[2]};
  LoopNest nest;
  nest.init(out_sizes.sizes, all, 3, out_sizes.dims);
  dispatch<StoredTypes, S>(ctx, self.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto find = largest ? &find_topk<true, T> : &find_topk<false, T>;
    do {
      for (size_t i = 0; i < nest.size(); ++i) {
        const int32_t at = static_cast<int32_t>(i);
        find(
            self.const_data_ptr<T>() + nest.offset(0) + at * nest.stride(0),
            strides[0][axis],
            count,
            values.mutable_data_ptr<T>() + nest.offset(1) + at * nest.stride(1),
            strides[1][axis],
            indices.mutable_data_ptr<int64_t>() + nest.offset(2) + at * nest.stride(2),
            strides[2][axis],
            found);
      }
    } while (nest.next());
  });
}

} // namespace torch::executor::native
