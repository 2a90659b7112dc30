#include "firmware/chips/stm32/stm32wb_flash.h"
#include "firmware/flash_algorithms/algorithm.h"

// RM0434, "Reset and clock control (RCC)", "Clock control register": MSIRDY 1, MSIRANGE 7:4.
#define RCC_CR CORTEX_M_REGISTER(0x58000000u)

__attribute__((naked, used, section(".entry"))) static void halt(void) {
  __asm volatile("bkpt 0");
}

uint32_t flash_init(uint32_t address, uint32_t clock, uint32_t operation) {
  (void)address;
  (void)clock;
  (void)operation;
  // The core was reset, so it runs on MSI, at 4 MHz; 16 MHz is the most that needs no wait states.
  while (!(RCC_CR & 1u << 1)) {
  }
  RCC_CR = (RCC_CR & ~(0xFu << 4)) | 8u << 4;
  stm32wb_flash_stop_caches();
  return stm32wb_flash_unlock() ? 0 : 1;
}

uint32_t flash_uninit(uint32_t operation) {
  (void)operation;
  stm32wb_flash_start_caches();
  stm32wb_flash_lock();
  return 0;
}

// There is no mass erase: one by this core is ignored and ends in a bus error ("Flash main memory
// erase sequences"). So there is no fast programming either, which must follow one.
uint32_t flash_erase_sector(uint32_t address) {
  return stm32wb_flash_erase(address);
}

uint32_t flash_program_page(uint32_t address, uint32_t size, const uint32_t* data) {
  return stm32wb_flash_write(address, size, data);
}

uint32_t flash_verify(uint32_t address, uint32_t size, const uint8_t* data) {
  const volatile uint8_t* flash = (const volatile uint8_t*)address;
  while (size != 0 && *flash == *data) {
    ++flash;
    ++data;
    --size;
  }
  return (uint32_t)flash;
}
