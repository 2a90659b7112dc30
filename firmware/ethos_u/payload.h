#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>

namespace torch_fusion::ethos_u {

/// A tensor at a delegate's boundary: its range in the memory that the NPU works in.
struct TensorPlace {
  int32_t shape[6];
  int32_t element_size;
  int32_t offset;
  int32_t region;
};

/// The result of ExecuTorch's Ethos-U backend for a subgraph: tools/artifacts/ethos_u/payload.py
/// describes the format.
struct alignas(8) Payload {
  /// CONFIG and ID of the NPU that the commands are for.
  uint32_t config;
  uint32_t architecture;
  executorch::runtime::Span<const uint32_t> commands;
  executorch::runtime::Span<const uint8_t> weights;
  /// Bytes of memory to work in, inputs and outputs included.
  uint32_t scratch_size;
  executorch::runtime::Span<const TensorPlace> inputs;
  executorch::runtime::Span<const TensorPlace> outputs;
};

/// Alignment of a payload, and of its weights and commands, in bytes.
inline constexpr size_t kAlignment = 16;

/**
 * Takes a payload apart, whatever its bytes are.
 *
 * @retval Error::DelegateInvalidCompatibility The bytes are no payload, or one of another format;
 * what is wrong is logged.
 * @retval Error::InvalidArgument They are not aligned.
 */
executorch::runtime::Error parse(executorch::runtime::Span<const uint8_t> data, Payload& payload);

/// Bytes of a tensor that parse() has checked.
size_t size_of(const TensorPlace& place);

} // namespace torch_fusion::ethos_u
