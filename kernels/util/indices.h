#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/checks.h"
#include "kernels/util/loop_nest.h"

namespace torch::executor::native {

/// The elements of an index tensor, Long or Int.
class Indices {
 public:
  Indices() = default;
  /// A tensor that check() has passed.
  explicit Indices(const Tensor& tensor)
      : data_(tensor.const_data_ptr()), is_long_(tensor.scalar_type() == ScalarType::Long) {}

  /// Fails the context (InvalidType) and returns false for another dtype.
  static bool check(KernelRuntimeContext& ctx, const Tensor& tensor);
  bool init(KernelRuntimeContext& ctx, const Tensor& tensor);

  int64_t operator[](int32_t offset) const {
    return is_long_ ? static_cast<const int64_t*>(data_)[offset]
                    : static_cast<const int32_t*>(data_)[offset];
  }
  /**
   * An element as an index of a dim of `size` elements.
   *
   * @param[in] wraps Whether a negative one counts from the end.
   *
   * @returns The index, or -1 after failing the context (InvalidArgument) if it
   *     is out of range.
   */
  int32_t get(KernelRuntimeContext& ctx, int32_t offset, int32_t size, bool wraps) const;

 private:
  const void* data_;
  bool is_long_;
};

/**
 * The loop of gather and scatter: over the elements of an index tensor, each of which replaces its
 * own index in one dim of a tensor.
 */
class IndexWalk {
 public:
  /**
   * @param[in] indexed The tensor whose elements the indices select.
   */
  bool init(
      KernelRuntimeContext& ctx,
      const Tensor& indexed,
      int64_t dim,
      const Tensor& index,
      const Tensor* other);

  /// Calls body(int32_t indexed_offset, int32_t other_offset) for each index,
  /// until one is out of range, which fails the context (InvalidArgument).
  template <class Body>
  void run(KernelRuntimeContext& ctx, Body&& body) {
    do {
      for (size_t i = 0; i < nest_.size(); ++i) {
        const int32_t step = static_cast<int32_t>(i);
        const int32_t place =
            indices_.get(ctx, nest_.offset(2) + step * nest_.stride(2), size_, false);
        if (place < 0) {
          return;
        }
        body(
            nest_.offset(0) + step * nest_.stride(0) + place * stride_,
            nest_.offset(1) + step * nest_.stride(1));
      }
    } while (nest_.next());
  }

 private:
  LoopNest nest_;
  Indices indices_;
  int32_t size_;
  int32_t stride_;
};

} // namespace torch::executor::native
