#include "kernels/util/elementwise.h"

namespace torch::executor::native {

ScalarType
compute_dtype(KernelRuntimeContext& ctx, ScalarType common, Compute compute, ScalarType out) {
  if (compute == Compute::Floating && !is_floating(common) && common != ScalarType::Undefined) {
    common = ScalarType::Float;
  }
  KERNEL_CHECK(
      ctx,
      compute == Compute::Predicate ? out == ScalarType::Bool : can_cast(common, out),
      InvalidType,
      ScalarType::Undefined,
      "A result of dtype %d cannot be written to an out of dtype %d",
      static_cast<int>(compute == Compute::Predicate ? ScalarType::Bool : common),
      static_cast<int>(out));
  return common;
}

namespace internal {

namespace {

const char* at(const void* data, int32_t offset, size_t size) {
  return static_cast<const char*>(data) + offset * static_cast<int32_t>(size);
}

/// Elements with a constant stride.
struct Strided {
  int32_t offset;
  int32_t stride;
};

/// Runs an operation on `size` elements of each input, block by block.
///
/// @returns false after failing the context (NotSupported) for a dtype that is not linked in.
bool run_blocks(
    KernelRuntimeContext& ctx,
    const Erased& operation,
    const void* op,
    const Tensor* const* inputs,
    const Strided* elements,
    size_t count,
    const Tensor& out,
    size_t out_offset,
    size_t size,
    ScalarType common) {
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  const bool is_stored = out.scalar_type() == operation.out_dtype;
  const bool is_rounded = common == ScalarType::Half || common == ScalarType::BFloat16;
  // It has the type of the largest elements, and so is aligned for all.
  uint64_t buffers[LoopNest::kMaxInputs + 1][kBlock];
  // Without buffers, the whole range is one block.
  bool is_direct = is_stored && !is_rounded;
  for (size_t i = 0; i < count; ++i) {
    is_direct = is_direct && inputs[i]->scalar_type() == operation.dtypes[i];
  }
  const size_t block = is_direct || size < kBlock ? size : kBlock;
  for (size_t done = 0; done < size; done += block) {
    const size_t part = size - done < block ? size - done : block;
    const void* in[LoopNest::kMaxInputs];
    int32_t strides[LoopNest::kMaxInputs];
    for (size_t i = 0; i < count; ++i) {
      const ScalarType dtype = inputs[i]->scalar_type();
      const void* const data = inputs[i]->const_data_ptr();
      const int32_t stride = elements[i].stride;
      const int32_t offset = elements[i].offset + static_cast<int32_t>(done) * stride;
      const bool is_off = is_rounded && dtype != common && operation.dtypes[i] == ScalarType::Float;
      if (dtype == operation.dtypes[i] && !is_off) {
        in[i] = at(data, offset, operation.sizes[i]);
        strides[i] = stride;
        continue;
      }
      if (!operation.load(dtype, data, offset, stride, buffers[i], part)) {
        unsupported_dtype(ctx, dtype);
        return false;
      }
      if (is_off) {
        void* const rounded = buffers[count];
        if (!operation.store(common, rounded, 0, buffers[i], part)) {
          unsupported_dtype(ctx, common);
          return false;
        }
        operation.load(common, rounded, 0, 1, buffers[i], part);
      }
      in[i] = buffers[i];
      strides[i] = 1;
    }
    const size_t offset = out_offset + done;
    void* const result =
        is_stored ? static_cast<void*>(to + offset * operation.out_size) : buffers[count];
    operation.loop(op, in, strides, result, part);
    if (!is_stored && !operation.store(out.scalar_type(), to, offset, result, part)) {
      unsupported_dtype(ctx, out.scalar_type());
      return false;
    }
  }
  return true;
}

} // namespace

void run_mixed(
    KernelRuntimeContext& ctx,
    const Erased& operation,
    const void* op,
    const Tensor* const* inputs,
    size_t count,
    const Tensor& out,
    ScalarType common) {
  LoopNest nest;
  if (!nest.init(ctx, out, inputs, count)) {
    return;
  }
  Strided elements[LoopNest::kMaxInputs];
  do {
    for (size_t i = 0; i < count; ++i) {
      elements[i] = {nest.offset(i), nest.stride(i)};
    }
  } while (run_blocks(
               ctx,
               operation,
               op,
               inputs,
               elements,
               count,
               out,
               nest.out_offset(),
               nest.size(),
               common) &&
           nest.next());
}

void run_mixed_flat(
    KernelRuntimeContext& ctx,
    const Erased& operation,
    const void* op,
    const Tensor* const* inputs,
    size_t count,
    const Tensor& out,
    ScalarType common) {
  static constexpr Strided kElements[LoopNest::kMaxInputs] = {{0, 1}, {0, 1}, {0, 1}};
  const size_t size = static_cast<size_t>(out.numel());
  run_blocks(ctx, operation, op, inputs, kElements, count, out, 0, size, common);
}

} // namespace internal

} // namespace torch::executor::native
