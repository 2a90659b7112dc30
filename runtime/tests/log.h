#pragma once

#include <string>

namespace torch_fusion::testing {

/// Returns the runtime's messages since the last call, a line each.
std::string take_log();

/// Drops messages, where a test provokes more of them than anyone reads.
void set_quiet(bool quiet);

} // namespace torch_fusion::testing
