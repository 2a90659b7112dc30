#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/checks.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/**
 * Walks up to three arrays of different strides together: the elements of an
 * output in memory order, and what belongs to them in the inputs, broadcast
 * where an input's size is 1. Neighbouring dims that all arrays walk evenly are
 * merged, so an operation sees as few and as long inner runs as there can be.
 *
 * @code
 *   do {
 *     run(out + nest.out_offset(), a + nest.offset(0), nest.stride(0), ...,
 *         nest.size());
 *   } while (nest.next());
 * @endcode
 */
class LoopNest {
 public:
  static constexpr size_t kMaxInputs = 3;

  /**
   * Builds the walk over `out`, with the shape it has, and inputs that
   * broadcast to it. An output without elements gives one empty run.
   *
   * @returns false after failing the context (InvalidArgument) if an input does
   *     not broadcast to the output.
   */
  bool
  init(KernelRuntimeContext& ctx, const Tensor& out, const Tensor* const* inputs, size_t count);

  /// Builds the walk of one input with given strides, in elements; `sizes` are
  /// the output's, in memory order.
  void init(const SizesType* sizes, const int32_t* strides, size_t dims) {
    init(sizes, &strides, 1, dims);
  }

  /// Builds the walk of `count` arrays with given strides each. After the last
  /// run all offsets but the output's are where they began.
  void init(const SizesType* sizes, const int32_t* const* strides, size_t count, size_t dims);

  /// Makes the longest dim the inner run, and the next one its rows: fewer runs, but not in the
  /// output's memory order.
  void sort_dims();

  /// Elements of one inner run.
  size_t size() const {
    return static_cast<size_t>(sizes_[0]);
  }
  /// Distance between elements of an input in an inner run.
  int32_t stride(size_t input) const {
    return strides_[input][0];
  }
  /// The offset of the current run of an input, in elements.
  int32_t offset(size_t input) const {
    return offsets_[input];
  }
  /// The offset of the current run of the output, in elements.
  size_t out_offset() const {
    return out_offset_;
  }
  /// Goes on to the next run; false after the last.
  bool next();

  /// The number of inner runs along the second dim, which have constant strides in all arrays.
  size_t rows() const {
    return dims_ > 1 ? static_cast<size_t>(sizes_[1]) : 1;
  }
  /// Distance between these runs in an input.
  int32_t row_stride(size_t input) const {
    return dims_ > 1 ? strides_[input][1] : 0;
  }
  /// Goes on to the next run after these rows; false after the last. Don't mix it with next().
  bool next_rows();

 private:
  void clear(size_t inputs);
  // Goes on to the next element of the dims from one on; false after the last.
  bool advance(size_t first_dim);
  // Adds the next outer dim.
  void append(SizesType size, const int32_t* strides);

  size_t dims_;
  size_t inputs_;
  size_t out_offset_;
  int32_t offsets_[kMaxInputs];
  // The innermost dim is the first.
  SizesType sizes_[kMaxDims];
  SizesType positions_[kMaxDims];
  int32_t strides_[kMaxInputs][kMaxDims];
};

/// The strides of a tensor in elements, from its shape and dim order. A dim of
/// size 0 counts as 1, as in ExecuTorch.
void strides_of(const Tensor& tensor, int32_t* strides);

/**
 * The shape that two shapes broadcast to; `result` may be one of them.
 *
 * @returns false after failing the context (InvalidArgument) if they do not.
 */
bool broadcast_sizes(
    KernelRuntimeContext& ctx,
    ArrayRef<SizesType> a,
    ArrayRef<SizesType> b,
    Shape& result);

} // namespace torch::executor::native
