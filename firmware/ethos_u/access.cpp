// The driver's way to the hardware, in a file of its own so that tests on this machine have
// another.

#include <executorch/runtime/platform/assert.h>

#include "firmware/ethos_u/core_registers.h"
#include "firmware/ethos_u/driver.h"

// These cores may have a data cache. To GCC 12's preprocessor a Cortex-M7 looks like a Cortex-M4,
// and a Cortex-M55 without vectors like a Cortex-M33; CCR tells them apart. Those of Armv6-M and
// Armv8-M Baseline have none.
#if __ARM_ARCH == 7 || defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define ETHOS_U_CORE_MAY_HAVE_DATA_CACHE
#endif

namespace torch_fusion::ethos_u {
namespace {

struct Core {
  uint32_t read(uint32_t address) const {
    return *reinterpret_cast<const volatile uint32_t*>(address);
  }
  void write(uint32_t address, uint32_t value) const {
    *reinterpret_cast<volatile uint32_t*>(address) = value;
  }
  void barrier() const {
    ethos_u_barrier();
  }
};

[[gnu::noinline]] void maintain(uint32_t operation, const void* address, size_t size) {
#ifdef ETHOS_U_CORE_MAY_HAVE_DATA_CACHE
  const Core core{};
  maintain_cache(core, operation, reinterpret_cast<uintptr_t>(address), size, kCacheLine);
#else
  (void)operation;
  (void)address;
  (void)size;
#endif
}

} // namespace

void enable_interrupt(const Device& device, uint8_t priority) {
  const Core core{};
  enable_interrupt(core, device.interrupt, priority);
}

} // namespace torch_fusion::ethos_u

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

ET_WEAK void ethos_u_flush(const void* address, size_t size) {
  torch_fusion::ethos_u::maintain(torch_fusion::ethos_u::kDccimvac, address, size);
}

ET_WEAK void ethos_u_invalidate(const void* address, size_t size) {
  torch_fusion::ethos_u::maintain(torch_fusion::ethos_u::kDcimvac, address, size);
}

} // extern "C"
