// The driver's way to the hardware, in a file of its own so that tests on this machine have
// another.

#include "firmware/ethos_u/driver.h"

extern "C" {

[[gnu::noipa, gnu::used]] void ethos_u_write(uintptr_t base, uint32_t offset, uint32_t value) {
  *reinterpret_cast<volatile uint32_t*>(base + offset) = value;
}

[[gnu::noipa, gnu::used]] uint32_t ethos_u_read(uintptr_t base, uint32_t offset) {
  return *reinterpret_cast<const volatile uint32_t*>(base + offset);
}

void ethos_u_barrier(void) {
  __asm__ volatile("dsb" ::: "memory");
}

} // extern "C"
