#pragma once

#include <stdint.h>

/// A flash algorithm: functions that a debug probe loads to RAM and calls one at a time on the
/// halted core, as CMSIS-Pack describes them ("Flash Programming Algorithms", "Algorithm
/// Functions"), and one more. The code runs wherever it is loaded and has no data of its own. All
/// but flash_verify() return 0, else the bits of the controller's status register that name the
/// error.

/// Unlocks the controller. `operation`: 1 erase, 2 program, 3 verify.
uint32_t flash_init(uint32_t address, uint32_t clock, uint32_t operation);

/// Locks the controller.
uint32_t flash_uninit(uint32_t operation);

/// Erases the sector that starts at `address`.
uint32_t flash_erase_sector(uint32_t address);

/// Programs erased flash. `address` and `size` are multiples of the smallest unit that can be
/// programmed.
uint32_t flash_program_page(uint32_t address, uint32_t size, const uint32_t* data);

/// Returns `address` + `size` if flash holds `data`, else the first address where it does not.
uint32_t flash_verify(uint32_t address, uint32_t size, const uint8_t* data);
