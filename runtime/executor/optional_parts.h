#pragma once

#include <executorch/runtime/kernel/operator_registry.h>

#include "runtime/executor/value_parser.h"

namespace executorch::runtime::internal {

/// The use of a value while a method executes, and the resulting requirement. A value may only have
/// one of these; constants have the last two.
enum class Mark : uint8_t {
  /// The value is an input of the method, whose memory stays the input's.
  Input = 1,
  /// It gets another content: by a move another value's memory, or a number, by a kernel, which
  /// no tensor may become.
  Replaced = 2,
  /// The value's tensor gets other memory, as views do, which after a move would also be a
  /// different value's.
  Relocated = 4,
  /// The value must be a constant: a kernel checks it, and reads it again later.
  Constant = 8,
  /// The value must be a constant that is a packed layer, whose contents check_packed() checks.
  Packed = 16,
};

/// The loader's check of an argument of a kernel's calls.
struct CheckedArgument {
  OpFunction kernel;
  /// The index among the call's arguments.
  uint8_t position;
  Mark mark;
};

/**
 * What of the runtime only some programs need. Method and Program call these functions through
 * kOptionalParts, so that an image holds those that its programs use: tools/pipeline/registry
 * writes the table beside that of the kernels. A program that needs a part which is left out gives
 * Error::NotSupported.
 */
struct OptionalParts {
  /// TensorParser::parse_list.
  Error (*parse_list)(
      deserialization::TensorParser& parser,
      executorch_flatbuffer::KernelTypes type,
      const flatbuffers::View& content,
      EValue* out);
  /// TensorParser::find_constant.
  Error (*find_constant)(const Program* program, uint32_t buffer_index, size_t nbytes, void** data);
  /// TensorParser::load_initial_state.
  Error (*load_initial_state)(
      const Program* program,
      const flatbuffers::View* info,
      uint32_t buffer_index,
      size_t nbytes,
      void* data);
  /// locate_segment().
  Error (*locate_segment)(
      flatbuffers::Verifier& verifier,
      const flatbuffers::View& program,
      size_t segment_base_offset,
      size_t index,
      size_t* offset,
      size_t* size);
  /// The image's kernels that have some, by kernels/*/operators.yaml.
  Span<const CheckedArgument> checked_arguments;
};

/// Finds the offset of a segment in the file.
Error locate_segment(
    flatbuffers::Verifier& verifier,
    const flatbuffers::View& program,
    size_t segment_base_offset,
    size_t index,
    size_t* offset,
    size_t* size);

/// The parts of this image; where no registry defines them, all.
extern const OptionalParts kOptionalParts;

} // namespace executorch::runtime::internal

/// Returns Error::NotSupported from a function of an image that leaves out a part.
#define TORCH_FUSION_CHECK_PART(part)                                  \
  ET_CHECK_OR_RETURN_ERROR(                                            \
      ::executorch::runtime::internal::kOptionalParts.part != nullptr, \
      NotSupported,                                                    \
      "the program needs " #part                                       \
      ", which this image leaves out: its kernel registry is "         \
      "made from another program; rebuild the image with this one")
