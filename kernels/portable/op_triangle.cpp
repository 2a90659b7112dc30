#include "kernels/portable/op_triangle.h"

#include <cstring>

namespace torch::executor::native {

void triangle(const Tensor& self, int64_t diagonal, bool is_upper, Tensor& out) {
  const auto sizes = self.sizes();
  const int64_t rows = sizes[sizes.size() - 2];
  const int64_t columns = sizes[sizes.size() - 1];
  const size_t size = static_cast<size_t>(out.element_size());
  const size_t width = static_cast<size_t>(columns) * size;
  const char* from = static_cast<const char*>(self.const_data_ptr());
  char* to = static_cast<char*>(out.mutable_data_ptr());
  // Beyond the matrix a diagonal is as good as any other.
  diagonal = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
  const char* const end = from + self.nbytes();
  while (from < end) {
    for (int64_t row = 0; row < rows; ++row, from += width, to += width) {
      // The columns before this one are below the diagonal, or on it for the lower triangle.
      int64_t column = row + diagonal + (is_upper ? 0 : 1);
      column = column < 0 ? 0 : column > columns ? columns : column;
      const size_t first = static_cast<size_t>(column) * size;
      std::memmove(to, from, width);
      if (is_upper) {
        std::memset(to, 0, first);
      } else {
        std::memset(to + first, 0, width - first);
      }
    }
  }
}

} // namespace torch::executor::native
