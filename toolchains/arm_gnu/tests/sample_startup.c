#include <stddef.h>

extern int main(void);

void Reset_Handler(void) {
  main();
  for (;;) {
  }
}

// newlib's snprintf could ask for this, and never does here. The C library calls it, which the
// link-time optimiser does not see.
__attribute__((used)) void* _sbrk(ptrdiff_t size) {
  (void)size;
  return (void*)-1;
}

// C++'s library gives up here; the C library's own raises a signal.
__attribute__((used)) void abort(void) {
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) static const void* const vectors[] = {
    (void*)0x20010000,
    (void*)Reset_Handler,
};
