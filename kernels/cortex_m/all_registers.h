#pragma once

#include <cstdint>

// Helpers for inline assembly that uses all registers, or changes the predicate register.
//
// GCC addresses memory operands relative to the stack pointer, whereas Clang needs a register for
// the address of each, and none is left. With Clang, the operands are words of an array that the
// assembly copies to the top of the stack and accesses by index.
#ifdef __clang__

inline uintptr_t memory_word(const void* value) {
  return reinterpret_cast<uintptr_t>(value);
}

inline uintptr_t memory_word(int32_t value) {
  return static_cast<uintptr_t>(value);
}

/// Declares the array, an even number of memory_word(): so the stack stays aligned. Its address
/// goes to `address`.
#define MEMORY_WORDS(address, ...)          \
  const uintptr_t memory[] = {__VA_ARGS__}; \
  address = memory_word(memory)
/// The constraint of `address`.
#define MEMORY_ADDRESS "+r"
/// Pushes the array onto the stack, given the list of indices from the last one to 0; `temporary`
/// is another register.
#define PUSH_MEMORY(places, address, temporary) \
  ".irp place, " places                         \
  "\n"                                          \
  "ldr " temporary ", [" address                \
  ", #4 * \\place]\n"                           \
  "str " temporary                              \
  ", [sp, #-4]!\n"                              \
  ".endr\n"
#define POP_MEMORY(words) "add sp, #4 * " #words "\n"
/// A word of it in an instruction.
#define IN_MEMORY(name, place) "[sp, #4 * " #place "]"
/// Operands of GCC.
#define WITH_GCC(...)

// Clang has no name for p0 among the registers that are changed.
#define SAVE_P0 "vstr p0, [sp, #-8]!\n"
#define RESTORE_P0 "vldr p0, [sp], #8\n"

#else

#define MEMORY_WORDS(address, ...) static_cast<void>(0)
#define MEMORY_ADDRESS "=&r"
#define PUSH_MEMORY(places, address, temporary)
#define POP_MEMORY(words)
#define IN_MEMORY(name, place) "%[" #name "]"
#define WITH_GCC(...) __VA_ARGS__
#define SAVE_P0
#define RESTORE_P0

#endif

/// Operands of assembly that adds to four sums.
#define FOUR_SUMS [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3)
