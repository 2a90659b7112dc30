#pragma once

#include <executorch/runtime/core/error.h>

namespace torch_fusion {

/// What an error of loading or executing a program means, and what to do about it: one line.
const char* error_text(executorch::runtime::Error error);

/// Writes "ERROR <step>: <name> (<code>): <meaning>" to the console.
void write_error(const char* step, executorch::runtime::Error error);

} // namespace torch_fusion
