#pragma once

#include <stdint.h>

#include "firmware/cortex_m/core.h"

/// The flash controller of the STM32WB. Source: RM0434, "Embedded flash memory (FLASH)", "FLASH
/// registers", "Flash main memory erase sequences" and "Flash main memory programming sequences".
#define STM32WB_FLASH_ACR CORTEX_M_REGISTER(0x58004000u) // ICEN 9, DCEN 10, ICRST 11, DCRST 12
#define STM32WB_FLASH_KEYR CORTEX_M_REGISTER(0x58004008u)
#define STM32WB_FLASH_SR CORTEX_M_REGISTER(0x58004010u) // OPTVERR 15, BSY 16, CFGBSY 18
#define STM32WB_FLASH_CR CORTEX_M_REGISTER(0x58004014u) // PG 0, PER 1, PNB 3, STRT 16, LOCK 31

enum {
  kStm32wbFlash = 0x08000000,
  kStm32wbPageSize = 4096,
  kStm32wbBusy = 1u << 16 | 1u << 18,
  // OPERR, PROGERR, WRPERR, PGAERR, SIZERR, PGSERR, MISERR, FASTERR.
  kStm32wbErrors = 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9,
};

/// Waits for the end of the operation. Returns its errors, which are cleared.
static inline uint32_t stm32wb_flash_finish(void) {
  while (STM32WB_FLASH_SR & kStm32wbBusy) {
  }
  const uint32_t errors = STM32WB_FLASH_SR & kStm32wbErrors;
  STM32WB_FLASH_SR = errors;
  return errors;
}

/// Lets flash be changed. Returns whether the controller accepts that.
static inline int stm32wb_flash_unlock(void) {
  // Errors of before block what follows. OPTVERR is set by every reset (errata ES0394, "Flash
  // OPTVERR flag is always set after system reset").
  stm32wb_flash_finish();
  STM32WB_FLASH_SR = 1u << 15;
  if (STM32WB_FLASH_CR & 1u << 31) {
    STM32WB_FLASH_KEYR = 0x45670123;
    STM32WB_FLASH_KEYR = 0xCDEF89AB;
  }
  return (STM32WB_FLASH_CR & 1u << 31) == 0;
}

/// Locks flash until the next stm32wb_flash_unlock().
static inline void stm32wb_flash_lock(void) {
  STM32WB_FLASH_CR = 1u << 31;
}

/// Empties both caches, which would go on showing what was there before, and turns them off.
static inline void stm32wb_flash_stop_caches(void) {
  STM32WB_FLASH_ACR &= ~(1u << 9 | 1u << 10);
  STM32WB_FLASH_ACR |= 1u << 11 | 1u << 12;
  STM32WB_FLASH_ACR &= ~(1u << 11 | 1u << 12);
}

static inline void stm32wb_flash_start_caches(void) {
  STM32WB_FLASH_ACR |= 1u << 9 | 1u << 10;
}

/// Erases the page at `address`. Returns the errors.
static inline uint32_t stm32wb_flash_erase(uint32_t address) {
  const uint32_t page = 1u << 1 | (address - kStm32wbFlash) / kStm32wbPageSize << 3;
  STM32WB_FLASH_CR = page;
  STM32WB_FLASH_CR = page | 1u << 16;
  const uint32_t errors = stm32wb_flash_finish();
  STM32WB_FLASH_CR = 0;
  return errors;
}

/// Writes double words of which `size` bytes consist. Those that are to stay erased are left out,
/// and can still be written another time. Returns the errors, at the first of which it ends.
static inline uint32_t stm32wb_flash_write(uint32_t address, uint32_t size, const uint32_t* data) {
  volatile uint32_t* flash = (volatile uint32_t*)address;
  uint32_t errors = 0;
  STM32WB_FLASH_CR = 1u << 0;
  for (const uint32_t* const end = data + size / 4; data != end && errors == 0;
       data += 2, flash += 2) {
    if ((data[0] & data[1]) != 0xFFFFFFFF) {
      flash[0] = data[0];
      flash[1] = data[1];
      errors = stm32wb_flash_finish();
    }
  }
  STM32WB_FLASH_CR = 0;
  return errors;
}
