// Runs the model's self-test in a thread, with features that applications for Mbed OS take for
// granted: C++'s library, and plain char without a sign.
#include <cstring>
#include <memory>

#include <application_models_package.h>
#include <sine_selftest.h>

#include "mbed_config.h"

static_assert(static_cast<char>(-1) > 0, "compiled without the flags of mbed-core-flags");

static_assert(SINE_STACK_SIZE > 0, "an emulated core measured it");

// The self-test and the heap need this much more than the model.
alignas(8) static unsigned char stack[SINE_STACK_SIZE + 512];

static int run() {
  const std::unique_ptr<sine_model_t> model(new sine_model_t);
  return sine_selftest(model.get());
}

// Calls a function as an RTOS does a thread's: on the process stack. Returns what it returns.
__attribute__((naked)) static int run_thread(int (*)(), void*) {
  asm("push {r4, lr}\n"
      "mrs r4, control\n"
      "msr psp, r1\n"
      "orr r3, r4, #2\n"
      "msr control, r3\n"
      "isb\n"
      "blx r0\n"
      "msr control, r4\n"
      "isb\n"
      "pop {r4, pc}");
}

int main() {
  constexpr unsigned char kUnused = 0xA5;
  std::memset(stack, kUnused, sizeof(stack));
  const int failures = run_thread(run, stack + sizeof(stack));
  // The deepest byte is untouched.
  return STAND_IN_CONFIGURED && failures == 0 && stack[0] == kUnused ? 0 : 1;
}
