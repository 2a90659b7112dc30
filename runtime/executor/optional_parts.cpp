#include "runtime/executor/optional_parts.h"

namespace executorch::runtime::internal {

// The parts of images without a generated registry, which may load any program.
ET_WEAK extern const OptionalParts kOptionalParts = {
    &deserialization::TensorParser::parse_list,
    &deserialization::TensorParser::find_constant,
    &deserialization::TensorParser::load_initial_state,
    &locate_segment,
    {}};

} // namespace executorch::runtime::internal
