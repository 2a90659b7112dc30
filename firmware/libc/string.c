/// The memory and string functions of the C library that the runtime and the compiler call, a tenth
/// of newlib's size: newlib unrolls and aligns them for speed on long strings, which firmware does
/// not have. Standard semantics (C17, 7.24).

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/// Accesses a word at any address: LDR and STR of Armv7-M and Armv8-M Mainline need no alignment.
/// For other cores the compiler takes it apart.
typedef struct {
  uint32_t value;
} __attribute__((packed, may_alias)) Word;

void* memmove(void* to, const void* from, size_t size) {
  uint8_t* out = to;
  const uint8_t* in = from;
  if ((uintptr_t)out - (uintptr_t)in >= size) {
    return memcpy(to, from, size);
  }
  while (size-- > 0) {
    out[size] = in[size];
  }
  return to;
}

#ifndef __ARM_FEATURE_MVE
void* memset(void* to, int value, size_t size) {
  uint8_t* out = to;
  const Word word = {(uint8_t)value * 0x01010101u};
  for (; size >= sizeof(Word); size -= sizeof(Word)) {
    *(Word*)out = word;
    out += sizeof(Word);
  }
  while (size-- > 0) {
    *out++ = (uint8_t)value;
  }
  return to;
}
#endif

int memcmp(const void* left, const void* right, size_t size) {
  const uint8_t* a = left;
  const uint8_t* b = right;
  for (; size > 0; --size, ++a, ++b) {
    if (*a != *b) {
      return *a - *b;
    }
  }
  return 0;
}

size_t strlen(const char* text) {
  const char* end = text;
  while (*end != '\0') {
    ++end;
  }
  return (size_t)(end - text);
}

int strcmp(const char* left, const char* right) {
  while (*left != '\0' && *left == *right) {
    ++left;
    ++right;
  }
  return (uint8_t)*left - (uint8_t)*right;
}

int strncmp(const char* left, const char* right, size_t size) {
  for (; size > 0; --size, ++left, ++right) {
    if (*left != *right || *left == '\0') {
      return (uint8_t)*left - (uint8_t)*right;
    }
  }
  return 0;
}
