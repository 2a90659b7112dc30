#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Flash that a running image erases and writes: a board's flash_driver implements this, and the
/// build refuses images with update_settings on other boards (docs/update.md).

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /// Bytes that one call of board_flash_erase() erases, at multiples of this.
  uint32_t page_size;
  /// Bytes that are written at once, at multiples of this; 8 at most. Once written, they can only
  /// be written with zeros until their page is erased.
  uint32_t write_size;
} BoardFlash;

extern const BoardFlash board_flash;

/// Erases the page at `address` to bytes of 0xFF. The core may stand still meanwhile, up to some 90
/// ms.
/// @returns whether the controller reports no error.
bool board_flash_erase(uintptr_t address);

/// Writes `size` bytes, a multiple of `write_size`, at `address`, a multiple of it, too.
/// @returns whether the controller reports no error.
bool board_flash_write(uintptr_t address, const void* data, size_t size);

#ifdef __cplusplus
}
#endif
