#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/tensor_dimension_limit.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include "kernels/selection.h"

/**
 * Argument checks that all kernels share. They fail the context instead of
 * aborting; the text, which says which argument is wrong and why, is in the
 * image only when logging is on.
 */
#define KERNEL_CHECK(ctx, condition, error, result, ...) \
  do {                                                   \
    if (!(condition)) {                                  \
      ET_LOG(Error, __VA_ARGS__);                        \
      (ctx).fail(::executorch::runtime::Error::error);   \
      return result;                                     \
    }                                                    \
  } while (false)

/// In functions that return whether arguments fit: fails the context (InvalidArgument) and returns
/// false unless the condition holds.
#define CHECK_ARGUMENT(ctx, condition, ...) \
  KERNEL_CHECK(ctx, condition, InvalidArgument, false, __VA_ARGS__)

namespace torch::executor::native {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

/// Largest number of dims a tensor may have.
constexpr size_t kMaxDims = executorch::runtime::kTensorDimensionLimit;

/// Returns whether two shapes are equal.
bool same_sizes(ArrayRef<SizesType> a, ArrayRef<SizesType> b);

/// Returns whether the dims are in the order 0, 1, 2, ... in memory.
bool is_contiguous(const Tensor& tensor);

/// Returns whether the elements of two tensors of one shape have the same order.
bool same_dim_order(const Tensor& a, const Tensor& b);

/// Returns whether two tensors have one shape and dim order.
bool same_layout(const Tensor& a, const Tensor& b);

/**
 * Turns a dim that may be negative into an index. A zero-dim tensor has one
 * dim, 0 or -1, as in PyTorch.
 *
 * @returns The index, or -1 after failing the context (InvalidArgument).
 */
int32_t normalize_dim(KernelRuntimeContext& ctx, int64_t dim, ssize_t dims);

/**
 * Whether a list of parameters fits in [low, high] each; lets kernels compute
 * in 32 bits. Fails the context (InvalidArgument) otherwise.
 */
bool in_range(
    KernelRuntimeContext& ctx,
    const ArrayRef<int64_t>& values,
    int32_t low,
    int32_t high);

/**
 * Gives `out` the shape that its operator computes. When no tensor of the call
 * is dynamic this only compares.
 *
 * @returns false after failing the context (InvalidArgument) if `out` cannot
 *     have that shape.
 */
bool compare_out(KernelRuntimeContext& ctx, const Tensor& out, ArrayRef<SizesType> sizes);
bool resize_out(KernelRuntimeContext& ctx, const Tensor& out, ArrayRef<SizesType> sizes);

template <class S>
bool shape_out(KernelRuntimeContext& ctx, const Tensor& out, ArrayRef<SizesType> sizes) {
  if constexpr (S::has(Variant::DynamicShape)) {
    return resize_out(ctx, out, sizes);
  } else {
    return compare_out(ctx, out, sizes);
  }
}

/// Fails the context (InvalidArgument) and returns false if the tensors differ
/// in their number of elements.
bool same_numel_or_fail(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b);

/// Gives `out` the shape of `self`. With static shapes, which the export made
/// equal, the number of elements is all that memory safety needs.
template <class S>
bool shape_like(KernelRuntimeContext& ctx, const Tensor& out, const Tensor& self) {
  if constexpr (S::has(Variant::DynamicShape)) {
    return resize_out(ctx, out, self.sizes());
  } else {
    return same_numel_or_fail(ctx, out, self);
  }
}

/// Fails the context (NotSupported) for a dtype that the image leaves out.
void unsupported_dtype(KernelRuntimeContext& ctx, ScalarType dtype);

/**
 * Fails the context (NotSupported) and returns false if a tensor of the call is not contiguous and
 * the kernel requires it. Costs nothing in an image whose program only has contiguous tensors.
 */
bool contiguous_or_fail(KernelRuntimeContext& ctx, const Tensor& tensor);

template <class S, class... Tensors>
bool check_contiguous(KernelRuntimeContext& ctx, const Tensors&... tensors) {
  if constexpr (S::has(Variant::DimOrder)) {
    return (contiguous_or_fail(ctx, tensors) && ...);
  } else {
    return true;
  }
}

/// Fails the context (NotSupported) and returns false if the elements of two tensors of a call have
/// different orders and the kernel processes them in memory order.
bool same_order_or_fail(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b);

/// The same for several tensors and `first`; costs nothing in an image whose program only has
/// contiguous tensors.
template <class S, class... Tensors>
bool check_same_order(KernelRuntimeContext& ctx, const Tensor& first, const Tensors&... others) {
  if constexpr (S::has(Variant::DimOrder)) {
    return (same_order_or_fail(ctx, first, others) && ...);
  } else {
    return true;
  }
}

/// Fails the context (InvalidType) and returns false unless an argument has the dtype.
bool dtype_or_fail(
    KernelRuntimeContext& ctx,
    const Tensor& tensor,
    ScalarType dtype,
    const char* name);

/// Fails the context (InvalidType) and returns false if the dtypes differ.
bool same_dtype_or_fail(KernelRuntimeContext& ctx, const Tensor& a, const Tensor& b);

} // namespace torch::executor::native
