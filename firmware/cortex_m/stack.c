#include "firmware/stack.h"

#include <stdint.h>

#include "firmware/cortex_m/core.h"

// Neither a small integer, nor an address of this program, nor a usual float.
static const uint32_t kPaint = 0xC5A5C5A5u;

void cortex_m_paint_stack(void) {
  // Fills the stack from the bottom up to this very frame; `volatile` keeps the loop from becoming
  // a call of memset, whose frame would be below.
  volatile uint32_t* const end = (volatile uint32_t*)__builtin_frame_address(0) - 8;
  for (volatile uint32_t* word = __stack_start; word < end; ++word) {
    *word = kPaint;
  }
}

size_t stack_used(void) {
  const volatile uint32_t* word = __stack_start;
  while (word < __stack_end && *word == kPaint) {
    ++word;
  }
  return (size_t)((uintptr_t)__stack_end - (uintptr_t)word);
}

size_t stack_size(void) {
  return (size_t)((uintptr_t)__stack_end - (uintptr_t)__stack_start);
}
