// Platform hooks of tests on the host: messages go to stderr, and the last one is kept for the
// tests to look at.

#include <cstdio>
#include <cstdlib>

#include <executorch/runtime/platform/platform.h>

#include "runtime/tests/log.h"

namespace torch_fusion::testing {

namespace {

std::string messages;
bool is_quiet = false;

} // namespace

std::string take_log() {
  std::string taken;
  taken.swap(messages);
  return taken;
}

void set_quiet(bool quiet) {
  is_quiet = quiet;
}

} // namespace torch_fusion::testing

void et_pal_abort(void) {
  std::fprintf(stderr, "the runtime aborted\n");
  std::abort();
}

void et_pal_emit_log_message(
    et_timestamp_t,
    et_pal_log_level_t level,
    const char* filename,
    const char*,
    size_t line,
    const char* message,
    size_t length) {
  using namespace torch_fusion::testing;
  if (is_quiet) {
    return;
  }
  messages.append(message, length).push_back('\n');
  std::fprintf(stderr, "%c %s:%zu %s\n", static_cast<char>(level), filename, line, message);
}
