#include <stdint.h>

// The linker script defines these.
extern uint32_t stack_top[], data_load[], data_begin[], data_end[], bss_begin[], bss_end[];
extern void (*init_array_begin[])(void);
extern void (*init_array_end[])(void);

int main(void);
void reset(void);
__attribute__((used)) void start(void);

/// Ends an emulation with a status: SYS_EXIT_EXTENDED of Arm's semihosting (ARM 100863).
static void leave(int status) {
  const struct {
    int reason;
    int status;
  } block = {0x20026, status};
  register int r0 __asm("r0") = 0x20;
  register const void* r1 __asm("r1") = &block;
  __asm volatile("bkpt 0xAB" : : "r"(r0), "r"(r1) : "memory");
  for (;;) {
  }
}

static void fault(void) {
  leave(3);
}

__attribute__((section(".vectors"), used)) static const struct {
  const void* stack;
  void (*handlers[15])(void);
} vectors = {stack_top, {reset, fault, fault, fault, fault, fault}};

/// A core that takes its stack from the vectors begins here, and an emulator that doesn't.
__attribute__((naked)) void reset(void) {
  __asm volatile("ldr r0, =stack_top\n mov sp, r0\n b start\n .ltorg");
}

void start(void) {
#if __ARM_FP || __ARM_FEATURE_MVE
  // CPACR: full access to the FPU and the vector extension, of which either may be there alone.
  *(volatile uint32_t*)0xE000ED88u |= 0xFu << 20;
  __asm volatile("dsb\n isb" : : : "memory");
#endif
  for (uint32_t *to = data_begin, *from = data_load; to < data_end;) {
    *to++ = *from++;
  }
  for (uint32_t* to = bss_begin; to < bss_end;) {
    *to++ = 0;
  }
  for (void (**constructor)(void) = init_array_begin; constructor < init_array_end; ++constructor) {
    (*constructor)();
  }
  leave(main());
}
