#pragma once

#include "kernels/portable/gemm.h"
#include "kernels/portable/op_binary.h"
#include "kernels/util/dtypes.h"
#include "kernels/util/loop_nest.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/**
 * Checks a matrix product of the last two dims, [rows, inner] by [inner,
 * columns], in front of which `batch_dims` equal dims stand. All three tensors
 * have one dtype.
 *
 * @returns false after failing the context.
 */
bool check_matmul(
    KernelRuntimeContext& ctx,
    const Tensor& a,
    const Tensor& b,
    const Tensor& out,
    size_t batch_dims,
    Shape& out_sizes);

/// Sets out = a @ b for each matrix of a batch, if check_matmul() has passed.
template <class S>
void batch_matmul(
    KernelRuntimeContext& ctx,
    const Tensor& a,
    const Tensor& b,
    Tensor& out,
    size_t batch_dims) {
  const size_t batch = batch_dims == 0 ? 1 : static_cast<size_t>(a.sizes()[0]);
  const size_t rows = static_cast<size_t>(a.sizes()[batch_dims]);
  const size_t inner = static_cast<size_t>(a.sizes()[batch_dims + 1]);
  const size_t columns = static_cast<size_t>(b.sizes()[batch_dims + 1]);
  dispatch<StoredRealTypes, S>(ctx, a.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from_a = a.const_data_ptr<T>();
    const T* from_b = b.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (size_t i = 0; i < batch; ++i) {
      matmul(from_a, from_b, to, rows, inner, columns);
      from_a += rows * inner;
      from_b += inner * columns;
      to += rows * columns;
    }
  });
}

template <class S>
Tensor& mm_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  Shape out_sizes;
  if (check_contiguous<S>(ctx, self, mat2, out) &&
      check_matmul(ctx, self, mat2, out, 0, out_sizes) && shape_out<S>(ctx, out, out_sizes)) {
    batch_matmul<S>(ctx, self, mat2, out, 0);
  }
  return out;
}

template <class S>
Tensor& bmm_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  Shape out_sizes;
  if (check_contiguous<S>(ctx, self, mat2, out) &&
      check_matmul(ctx, self, mat2, out, 1, out_sizes) && shape_out<S>(ctx, out, out_sizes)) {
    batch_matmul<S>(ctx, self, mat2, out, 1);
  }
  return out;
}

/// aten::addmm.out: beta * self + alpha * (mat1 @ mat2), self broadcast; with a
/// beta of 0 self is not read.
template <class S>
Tensor& addmm_out(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const Tensor& mat1,
    const Tensor& mat2,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  Shape out_sizes;
  if (!check_contiguous<S>(ctx, self, mat1, mat2, out) || !same_dtype_or_fail(ctx, self, out) ||
      !check_matmul(ctx, mat1, mat2, out, 0, out_sizes) || !shape_out<S>(ctx, out, out_sizes)) {
    return out;
  }
  const Tensor* const inputs[] = {&self};
  LoopNest nest;
  if (!nest.init(ctx, out, inputs, 1)) {
    return out;
  }
  if (!is_reduced_dtype(out.scalar_type())) {
    batch_matmul<S>(ctx, mat1, mat2, out, 0);
  }
  const size_t inner = static_cast<size_t>(mat1.sizes()[1]);
  const size_t columns = static_cast<size_t>(mat2.sizes()[1]);
  dispatch<StoredRealTypes, S>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Number = ComputeType<T>;
    const operation::Mul mul;
    const operation::Add add;
    Number self_factor = Number(1);
    Number product_factor = Number(1);
    if constexpr (S::has(Variant::Alpha)) {
      self_factor = scalar_to<Number>(beta);
      product_factor = scalar_to<Number>(alpha);
    } else {
      static_cast<void>(beta);
      static_cast<void>(alpha);
    }
    T* const begin = out.mutable_data_ptr<T>();
    do {
      const T* from = self.const_data_ptr<T>() + nest.offset(0);
      const int32_t stride = nest.stride(0);
      T* to = begin + nest.out_offset();
      for (size_t count = nest.size(); count > 0; --count, ++to) {
        Number product;
        if constexpr (is_reduced<T>) {
          // Rounded once, at the end.
          const size_t index = static_cast<size_t>(to - begin);
          product = dot_product(
              mat1.const_data_ptr<T>() + index / columns * inner,
              mat2.const_data_ptr<T>() + index % columns,
              inner,
              columns);
        } else {
          product = *to;
        }
        if constexpr (S::has(Variant::Alpha)) {
          product = mul(product_factor, product);
          if (self_factor != Number(0)) {
            product = add(mul(self_factor, static_cast<Number>(*from)), product);
          }
        } else {
          product = add(static_cast<Number>(*from), product);
        }
        *to = static_cast<T>(product);
        from += stride;
      }
    } while (nest.next());
  });
  return out;
}

} // namespace torch::executor::native
