#include "kernels/util/elementwise.h"

namespace torch {
namespace executor {
namespace native {

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

} // namespace

void run_mixed(
    KernelRuntimeContext& ctx,
    const Erased& operation,
    const void* op,
    const Tensor* const* inputs,
    size_t count,
    const Tensor& out) {
  LoopNest nest;
  if (!nest.init(ctx, out, inputs, count)) {
    return;
  }
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  const bool is_stored = out.scalar_type() == operation.out_dtype;
  // Of the largest elements, hence aligned for all.
  uint64_t buffers[LoopNest::kMaxInputs + 1][kBlock];
  do {
    const size_t size = nest.size();
    for (size_t done = 0; done < size; done += kBlock) {
      const size_t part = size - done < kBlock ? size - done : kBlock;
      const void* in[LoopNest::kMaxInputs];
      int32_t strides[LoopNest::kMaxInputs];
      for (size_t i = 0; i < count; ++i) {
        const Tensor& input = *inputs[i];
        strides[i] = nest.stride(i);
        const int32_t offset = nest.offset(i) + static_cast<int32_t>(done) * strides[i];
        if (input.scalar_type() == operation.dtypes[i]) {
          in[i] = at(input.const_data_ptr(), offset, operation.sizes[i]);
          continue;
        }
        if (!operation.load(
                input.scalar_type(),
                input.const_data_ptr(),
                offset,
                strides[i],
                buffers[i],
                part)) {
          return unsupported_dtype(ctx, input.scalar_type());
        }
        in[i] = buffers[i];
        strides[i] = 1;
      }
      const size_t offset = nest.out_offset() + done;
      void* const result =
          is_stored ? static_cast<void*>(to + offset * operation.out_size) : buffers[count];
      operation.loop(op, in, strides, result, part);
      if (!is_stored && !operation.store(out.scalar_type(), to, offset, result, part)) {
        return unsupported_dtype(ctx, out.scalar_type());
      }
    }
  } while (nest.next());
}

} // namespace internal

} // namespace native
} // namespace executor
} // namespace torch
