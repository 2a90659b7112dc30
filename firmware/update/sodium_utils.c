#include <stddef.h>
#include <stdint.h>

#include <utils.h>

/// The part of libsodium's utils.h that its Ed25519 and SHA-512 call. Only public values are
/// checked on a device, so nothing here needs constant time.

void sodium_memzero(void* const memory, const size_t size) {
  volatile uint8_t* bytes = memory;
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = 0;
  }
}

int sodium_memcmp(const void* const first, const void* const second, size_t size) {
  const uint8_t* a = first;
  const uint8_t* b = second;
  uint8_t difference = 0;
  for (size_t i = 0; i < size; ++i) {
    difference |= a[i] ^ b[i];
  }
  return difference == 0 ? 0 : -1;
}

int sodium_is_zero(const unsigned char* bytes, const size_t size) {
  uint8_t any = 0;
  for (size_t i = 0; i < size; ++i) {
    any |= bytes[i];
  }
  return any == 0;
}
