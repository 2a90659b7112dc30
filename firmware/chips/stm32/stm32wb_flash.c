#include "firmware/chips/stm32/stm32wb_flash.h"

#include <string.h>

#include "firmware/board_flash.h"

const BoardFlash board_flash = {.page_size = kStm32wbPageSize, .write_size = 8};

/// Reading a double word that a power cut has left half written raises NMI (RM0434, "Error code
/// correction (ECC)"); what is read is not the program that was signed, which whoever reads finds.
void NMI_Handler(void);
void NMI_Handler(void) {
  // FLASH_ECCR: ECCD 31, cleared by writing it.
  CORTEX_M_REGISTER(0x58004018u) |= 1u << 31;
}

/// Ends a change of flash, with caches on and empty.
static bool finish(uint32_t errors) {
  stm32wb_flash_start_caches();
  stm32wb_flash_lock();
  return errors == 0;
}

static bool begin(void) {
  stm32wb_flash_stop_caches();
  return stm32wb_flash_unlock();
}

bool board_flash_erase(uintptr_t address) {
  return begin() && finish(stm32wb_flash_erase(address));
}

bool board_flash_write(uintptr_t address, const void* data, size_t size) {
  uint32_t errors = begin() ? 0 : 1;
  for (size_t i = 0; i < size && errors == 0; i += 8) {
    uint32_t words[2];
    memcpy(words, (const uint8_t*)data + i, sizeof(words));
    errors = stm32wb_flash_write(address + i, sizeof(words), words);
  }
  return finish(errors);
}
