#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

namespace torch_fusion {

/// Writes "Float [1, 10]: 0.1 0.2 ..." to the console: dtype, shape and the first elements in
/// memory order.
void write_tensor(const executorch::aten::Tensor& tensor);

/// ExecuTorch's name of a dtype, such as "Float".
const char* dtype_name(executorch::aten::ScalarType dtype);

/// Returns the largest difference between a tensor's elements and expected ones of the same dtype,
/// as float. With integers, 0 or 1: equal or not. NaN where only one of two elements is NaN.
float max_difference(const executorch::aten::Tensor& tensor, const void* expected);

/// Returns whether |element - expected| <= atol + rtol * |expected| for every element; for integers
/// and bool, whether they are equal.
bool all_close(
    const executorch::aten::Tensor& tensor,
    const void* expected,
    float atol,
    float rtol);

/// Stores `value` as element `index` of `data`, an array of `dtype`.
void store_element(executorch::aten::ScalarType dtype, void* data, size_t index, float value);

} // namespace torch_fusion
