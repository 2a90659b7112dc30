// Runs the model's self-test, with features that applications for Mbed OS take for granted: C++'s
// library, and plain char without a sign.
#include <memory>

#include <application_models_package.h>
#include <sine_selftest.h>

#include "mbed_config.h"

static_assert(static_cast<char>(-1) > 0, "compiled without the flags of mbed-core-flags");

static_assert(SINE_STACK_SIZE > 0, "an emulated core measured it");

int main() {
  const std::unique_ptr<sine_model_t> model(new sine_model_t);
  return STAND_IN_CONFIGURED && sine_selftest(model.get()) == 0 ? 0 : 1;
}
