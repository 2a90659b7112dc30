#pragma once

#include <executorch/runtime/core/error.h>

namespace torch_fusion {

/// Returns the meaning of an error of loading or executing a program, and a remedy, in one line.
const char* error_text(executorch::runtime::Error error);

/// Writes "ERROR <step>: <name> (<code>): <meaning>" to the console.
void write_error(const char* step, executorch::runtime::Error error);

} // namespace torch_fusion
