#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/util/checks.h"
#include "kernels/util/shape.h"

namespace torch::executor::native {

/// Says whether words may be at any address.
#if !defined(__thumb__) || defined(__ARM_FEATURE_UNALIGNED)
constexpr bool kHasWordsAnywhere = true;
#else
constexpr bool kHasWordsAnywhere = false;
#endif

/**
 * Elements of a tensor seen through a shape and strides: the source or target of an operator that
 * only moves elements. The functions change the view, not the tensor; indices and dims must be in
 * range.
 */
struct View {
  /// The first element.
  char* data;
  /// Bytes per element.
  int32_t element_size;
  Shape shape;
  /// Distance between neighbours in each dim, in elements; may be 0 or negative.
  int32_t strides[kMaxDims];

  View() = default;
  /// All of a tensor, whatever its dim order.
  explicit View(const Tensor& tensor);

  /// Moves the first element on by `elements` elements.
  void move(int32_t elements) {
    data += elements * element_size;
  }
  /// Keeps `count` indices of a dim: start, start + step, ...
  void slice(size_t dim, int32_t start, int32_t step, int32_t count);
  /// Keeps one index of a dim, and removes the dim.
  void select(size_t dim, int32_t index);
  void flip(size_t dim);
  void transpose(size_t dim0, size_t dim1);
  /// Moves a dim to another index; the dims in between shift.
  void move_dim(size_t from, size_t to);
  /// Replaces a dim by two: its size / inner, and inner, which divides it.
  void split(size_t dim, SizesType inner);
  /// Appends a dim; ignored beyond kMaxDims.
  void append(SizesType size, int32_t stride);
};

/// The order in which elements are copied.
enum class CopyOrder : uint8_t {
  /// The runs are in the target's memory order.
  Memory,
  /// If no run is dense in both, it goes along the longest dim: fewer runs, and more code.
  LongestFirst,
};

/**
 * Copies elements between two views of one shape and element size (1, 2, 4 or 8 bytes). If they
 * overlap, as in a corrupted program, the result is arbitrary.
 */
void copy_view(const View& from, const View& to, CopyOrder order = CopyOrder::Memory);

/// Copies bytes that don't overlap; few of them without a call.
void copy_bytes(const char* from, char* to, size_t bytes);

/// Copies rows of `bytes` bytes each, which don't overlap; distances between rows are in bytes.
void copy_dense_rows(
    const char* from,
    int32_t from_row,
    char* to,
    int32_t to_row,
    size_t bytes,
    size_t rows);

/// Copies `count` elements of 1, 2, 4 or 8 bytes, with strides in elements.
void copy_strided(
    const char* from,
    int32_t from_stride,
    char* to,
    int32_t to_stride,
    size_t count,
    int32_t element_size);

/// Repeats a view's dims of size 1, and adds dims before them, to give it a
/// shape. Fails the context (InvalidArgument) and returns false if that does not
/// fit.
bool broadcast_view(KernelRuntimeContext& ctx, View& view, ArrayRef<SizesType> sizes);

/// Sets `view` to `from` with its dims in the order `dims`. Fails the context (InvalidArgument) and
/// returns false if that is no permutation.
bool permute(
    KernelRuntimeContext& ctx,
    const View& from,
    const ArrayRef<int64_t>& dims,
    View& view);

/// Returns the offset of the next element of a view in the order of its indices, where `position`
/// has the indices of the one at `offset`. The first follows the last.
int32_t step(const View& view, SizesType* position, int32_t offset);

/// Writes a view of self to out; fails the context if out has not its dtype, or
/// cannot have its shape.
template <class S>
Tensor& write_view(
    KernelRuntimeContext& ctx,
    const Tensor& self,
    const View& view,
    Tensor& out,
    CopyOrder order = CopyOrder::Memory) {
  if (same_dtype_or_fail(ctx, self, out) && shape_out<S>(ctx, out, view.shape)) {
    copy_view(view, View(out), order);
  }
  return out;
}

} // namespace torch::executor::native
