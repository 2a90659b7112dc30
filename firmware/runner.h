#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_fusion {

/// The runner (runner.cpp) and its host write this to each other. tools/abi/layouts has the same.

/// Precedes a program and its inputs in the host's inputs: bytes of the program and of all inputs,
/// and number of inputs.
struct CaseHeader {
  uint32_t program_size;
  uint32_t inputs_size;
  uint32_t input_count;
};

/// The step of a case when it ended.
enum class Step : uint32_t { kLoad, kInput, kExecute, kOutput };

/// Precedes the outputs of a case.
struct ResultHeader {
  /// executorch::runtime::Error, and the Step in which it happened.
  uint32_t error;
  uint32_t step;
  /// Values that follow: after an error none, or those that a failed execution has left.
  uint32_t output_count;
  /// The same as in HostReport.
  uint32_t load_ticks;
  uint32_t execute_ticks;
  uint32_t method_used;
  uint32_t planned_used;
  uint32_t temp_used;
};

/// Dimensions that an input or output can have.
inline constexpr size_t kMaxDim = 16;

/// Precedes the bytes of an input or output: ExecuTorch's ScalarType, shape, dim order, and number
/// of these bytes.
struct ValueHeader {
  int32_t dtype;
  uint32_t dim;
  int32_t sizes[kMaxDim];
  uint8_t dim_order[kMaxDim];
  uint32_t nbytes;
};

} // namespace torch_fusion
