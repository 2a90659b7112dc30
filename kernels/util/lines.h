#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/util/window.h"

namespace torch::executor::native {

/// The rows of an image that layers write and read a few at a time, in memory for some of them or
/// for all.
struct Lines {
  int8_t* memory;
  int32_t row_bytes;
  /// The number of the first row in memory, and of those that have been written.
  int32_t begin;
  int32_t end;

  int8_t* row(int32_t number) const {
    return memory + (number - begin) * row_bytes;
  }

  /// Drops the rows before a number: the others move to the beginning.
  void drop(int32_t number) {
    if (number > begin) {
      const int8_t* const from = row(number);
      begin = std::min(number, end);
      std::memmove(memory, from, static_cast<size_t>((end - begin) * row_bytes));
    }
  }
};

/// The first row of an input that the window at an output row reads.
inline int32_t first_row(const Window& window, int32_t out_row) {
  return std::max<int32_t>(out_row * window.stride - window.padding, 0);
}

/// The window of a layer that computes the output rows from `from` to `to`, over the input's rows
/// from first_row() on. A padding is only where the image ends.
inline Window window_of_rows(const Window& window, const Lines& in, int32_t from, int32_t to) {
  Window rows = window;
  const int32_t top = first_row(window, from);
  rows.in = in.end - top;
  rows.padding = top - (from * window.stride - window.padding);
  rows.out = to - from;
  return rows;
}

} // namespace torch::executor::native
