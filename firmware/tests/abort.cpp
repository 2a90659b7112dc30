/// Breaks a rule of the runtime that ends the program.
#include <executorch/runtime/platform/assert.h>

int main() {
  const volatile bool holds = false;
  ET_CHECK_MSG(holds, "this does not hold");
  return 0;
}
