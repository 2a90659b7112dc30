#include "firmware/flash_algorithms/algorithm.h"

// RM0434, "Embedded flash memory (FLASH)", "FLASH registers".
#define REGISTER(address) (*(volatile uint32_t*)(address))
#define FLASH_ACR REGISTER(0x58004000u)  // access control: ICEN 9, DCEN 10, ICRST 11, DCRST 12
#define FLASH_KEYR REGISTER(0x58004008u) // key
#define FLASH_SR REGISTER(0x58004010u)   // status: errors in kErrors, OPTVERR 15, BSY 16, CFGBSY 18
#define FLASH_CR REGISTER(0x58004014u)   // control
// RM0434, "Reset and clock control (RCC)", "Clock control register".
#define RCC_CR REGISTER(0x58000000u) // MSIRDY 1, MSIRANGE 7:4

enum {
  kPG = 1u << 0,
  kPER = 1u << 1,
  kPNB = 3, // first bit of the page number
  kSTRT = 1u << 16,
  kBusy = 1u << 16 | 1u << 18,
  // OPERR, PROGERR, WRPERR, PGAERR, SIZERR, PGSERR, MISERR, FASTERR.
  kErrors = 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9,
  kOptionError = 1u << 15,
  kFlash = 0x08000000,
  kPageSize = 4096,
};

static const uint32_t kLock = 1u << 31;
static const uint32_t kCaches = 1u << 9 | 1u << 10;
static const uint32_t kCacheResets = 1u << 11 | 1u << 12;

__attribute__((naked, used, section(".entry"))) static void halt(void) {
  __asm volatile("bkpt 0");
}

/// Waits for the end of the operation. Returns its errors, which are cleared.
static inline uint32_t finish(void) {
  while (FLASH_SR & kBusy) {
  }
  const uint32_t errors = FLASH_SR & kErrors;
  FLASH_SR = errors;
  return errors;
}

uint32_t flash_init(uint32_t address, uint32_t clock, uint32_t operation) {
  (void)address;
  (void)clock;
  (void)operation;
  // The core was reset, so it runs on MSI, at 4 MHz; 16 MHz is the most that needs no wait states.
  while (!(RCC_CR & 1u << 1)) {
  }
  RCC_CR = (RCC_CR & ~(0xFu << 4)) | 8u << 4;
  // The caches would go on showing what was there before.
  FLASH_ACR &= ~kCaches;
  FLASH_ACR |= kCacheResets;
  FLASH_ACR &= ~kCacheResets;
  // "Flash memory program and erase operations": errors of before block what follows. OPTVERR is
  // set by every reset (errata ES0394, "Flash OPTVERR flag is always set after system reset").
  finish();
  FLASH_SR = kOptionError;
  if (FLASH_CR & kLock) {
    FLASH_KEYR = 0x45670123;
    FLASH_KEYR = 0xCDEF89AB;
  }
  return FLASH_CR & kLock ? 1 : 0;
}

uint32_t flash_uninit(uint32_t operation) {
  (void)operation;
  FLASH_ACR |= kCaches;
  FLASH_CR = kLock;
  return 0;
}

// There is no mass erase: one by this core is ignored and ends in a bus error ("Flash main memory
// erase sequences"). So there is no fast programming either, which must follow one.
uint32_t flash_erase_sector(uint32_t address) {
  const uint32_t page = kPER | (address - kFlash) / kPageSize << kPNB;
  FLASH_CR = page;
  FLASH_CR = page | kSTRT;
  const uint32_t errors = finish();
  FLASH_CR = 0;
  return errors;
}

uint32_t flash_program_page(uint32_t address, uint32_t size, const uint32_t* data) {
  volatile uint32_t* flash = (volatile uint32_t*)address;
  uint32_t errors = 0;
  FLASH_CR = kPG;
  for (const uint32_t* const end = data + size / 4; data != end && errors == 0;
       data += 2, flash += 2) {
    // A double word that stays erased can still be programmed another time.
    if ((data[0] & data[1]) != 0xFFFFFFFF) {
      flash[0] = data[0];
      flash[1] = data[1];
      errors = finish();
    }
  }
  FLASH_CR = 0;
  return errors;
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
