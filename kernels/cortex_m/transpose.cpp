#include "kernels/cortex_m/transpose.h"

#include <cstring>

#include "kernels/cortex_m/dsp.h"
#include "kernels/util/view.h"

namespace torch::executor::native::cortex_m {

namespace {

constexpr int32_t kLanes = 4;

int8_t* stored(uint32_t word, int8_t* to, int32_t step) {
  std::memcpy(to, &word, sizeof(word));
  return to + step;
}

/// Copies four rows to four columns of rows that are `step` bytes apart.
void transpose_four(const int8_t* from, int32_t columns, int8_t* to, int32_t step) {
  int32_t column = 0;
  if (kHasWordsAnywhere) {
    constexpr uint32_t kEven = 0x00ff00ff;
    for (; column + kLanes <= columns; column += kLanes) {
      const uint32_t first = load_word(from);
      const uint32_t second = load_word(from + columns);
      const uint32_t third = load_word(from + 2 * columns);
      const uint32_t fourth = load_word(from + 3 * columns);
      const uint32_t low_even = (first & kEven) | (second & kEven) << 8;
      const uint32_t low_odd = (first >> 8 & kEven) | (second & ~kEven);
      const uint32_t high_even = (third & kEven) | (fourth & kEven) << 8;
      const uint32_t high_odd = (third >> 8 & kEven) | (fourth & ~kEven);
      to = stored((low_even & 0xffff) | high_even << 16, to, step);
      to = stored((low_odd & 0xffff) | high_odd << 16, to, step);
      to = stored(low_even >> 16 | (high_even & 0xffff0000), to, step);
      to = stored(low_odd >> 16 | (high_odd & 0xffff0000), to, step);
      from += kLanes;
    }
  }
  for (; column < columns; ++column) {
    for (int32_t row = 0; row < kLanes; ++row) {
      to[row] = from[row * columns];
    }
    ++from;
    to += step;
  }
}

void transpose_bytes(const int8_t* in, int32_t rows, int32_t columns, int8_t* out) {
  int32_t row = 0;
  for (; row + kLanes <= rows; row += kLanes) {
    transpose_four(in, columns, out + row, rows);
    in += kLanes * columns;
  }
  for (; row < rows; ++row) {
    int8_t* to = out + row;
    for (int32_t column = 0; column < columns; ++column) {
      *to = *in++;
      to += rows;
    }
  }
}

} // namespace

void transpose(
    const int8_t* in,
    int32_t batch,
    int32_t rows,
    int32_t columns,
    int32_t unit,
    int8_t* out) {
  for (; batch > 0; --batch) {
    if (unit == 1) {
      transpose_bytes(in, rows, columns, out);
      in += rows * columns;
      out += rows * columns;
      continue;
    }
    const int32_t step = columns * unit;
    for (int32_t column = 0; column < columns; ++column) {
      const auto bytes = static_cast<size_t>(unit);
      const auto* from = reinterpret_cast<const char*>(in + column * unit);
      auto* to = reinterpret_cast<char*>(out);
      copy_dense_rows(from, step, to, unit, bytes, static_cast<size_t>(rows));
      out += rows * unit;
    }
    in += rows * step;
  }
}

} // namespace torch::executor::native::cortex_m
