/// Calls itself until the stack is full, and then a little further.
#include "firmware/console.h"
#include "firmware/host.h"
#include "firmware/stack.h"

namespace {

int descend(int levels) {
  volatile char frame[64];
  frame[0] = static_cast<char>(levels);
  return levels == 0 ? 0 : descend(levels - 1) + frame[0];
}

} // namespace

int main() {
  host_open();
  descend(static_cast<int>(stack_size()) / 64 + 4);
  HostReport report = {};
  report.pass = kHostReportPass;
  report.stack_used = stack_used();
  report.stack_size = stack_size();
  console_text("\nPASS\n");
  host_close(&report);
  return kExitPass;
}
