#include <string.h>

#include "firmware/board_flash.h"
#include "firmware/cortex_m/core.h"

/// nRF52840 Product Specification, "NVMC": CONFIG 0 reads, 1 writes, 2 erases.
#define NVMC_READY CORTEX_M_REGISTER(0x4001E400u)
#define NVMC_CONFIG CORTEX_M_REGISTER(0x4001E504u)
#define NVMC_ERASEPAGE CORTEX_M_REGISTER(0x4001E508u)

const BoardFlash board_flash = {.page_size = 4096, .write_size = 4};

static void set_mode(uint32_t mode) {
  while ((NVMC_READY & 1) == 0) {
  }
  NVMC_CONFIG = mode;
}

bool board_flash_erase(uintptr_t address) {
  set_mode(2);
  NVMC_ERASEPAGE = address;
  set_mode(0);
  return true;
}

bool board_flash_write(uintptr_t address, const void* data, size_t size) {
  set_mode(1);
  for (size_t i = 0; i < size; i += 4) {
    uint32_t word;
    memcpy(&word, (const uint8_t*)data + i, sizeof(word));
    *(volatile uint32_t*)(address + i) = word;
    while ((NVMC_READY & 1) == 0) {
    }
  }
  set_mode(0);
  return true;
}
