#include "firmware/flash_algorithms/algorithm.h"

// RM0434, "Embedded flash memory (FLASH)", "FLASH registers".
#define REGISTER(address) (*(volatile uint32_t*)(address))
#define FLASH_ACR REGISTER(0x58004000u)  // access control: ICEN 9, DCEN 10, ICRST 11, DCRST 12
#define FLASH_KEYR REGISTER(0x58004008u) // key
#define FLASH_SR REGISTER(0x58004010u)   // status: errors in kErrors, BSY 16, CFGBSY 18
#define FLASH_CR REGISTER(0x58004014u)   // control
// RM0434, "Reset and clock control (RCC)", "Clock control register".
#define RCC_CR REGISTER(0x58000000u) // MSIRDY 1, MSIRANGE 7:4

enum {
  kPG = 1u << 0,
  kPER = 1u << 1,
  kMER = 1u << 2,
  kPNB = 3, // first bit of the page number
  kSTRT = 1u << 16,
  kFSTPG = 1u << 18,
  kBusy = 1u << 16 | 1u << 18,
  // OPERR, PROGERR, WRPERR, PGAERR, SIZERR, PGSERR, MISERR, FASTERR.
  kErrors = 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9,
  kFlash = 0x08000000,
  kPageSize = 4096,
  // "Fast programming": a row is 64 double words.
  kRowWords = 128,
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
  // "Fast programming" needs at least 8 MHz. The core was reset, so it runs on MSI, at 4 MHz; 16
  // MHz is the most that needs no wait states.
  while (!(RCC_CR & 1u << 1)) {
  }
  RCC_CR = (RCC_CR & ~(0xFu << 4)) | 8u << 4;
  // The caches would go on showing what was there before.
  FLASH_ACR &= ~kCaches;
  FLASH_ACR |= kCacheResets;
  FLASH_ACR &= ~kCacheResets;
  // "Flash memory program and erase operations": errors of before block what follows.
  finish();
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

/// Erases as the bits of FLASH_CR say.
static inline uint32_t erase(uint32_t what) {
  FLASH_CR = what;
  FLASH_CR = what | kSTRT;
  const uint32_t errors = finish();
  FLASH_CR = 0;
  return errors;
}

uint32_t flash_erase_chip(void) {
  return erase(kMER);
}

uint32_t flash_erase_sector(uint32_t address) {
  return erase(kPER | (address - kFlash) / kPageSize << kPNB);
}

uint32_t flash_program_page(uint32_t address, uint32_t size, const uint32_t* data) {
  volatile uint32_t* flash = (volatile uint32_t*)address;
  uint32_t errors = 0;
  FLASH_CR = kPG;
  for (const uint32_t* const end = data + size / 4; data != end && errors == 0;
       data += 2, flash += 2) {
    // What stays erased can still be programmed another time.
    if ((data[0] & data[1]) != 0xFFFFFFFF) {
      flash[0] = data[0];
      flash[1] = data[1];
      errors = finish();
    }
  }
  FLASH_CR = 0;
  return errors;
}

uint32_t flash_program_rows(uint32_t address, uint32_t size, const uint32_t* data) {
  volatile uint32_t* flash = (volatile uint32_t*)address;
  uint32_t errors = 0;
  FLASH_CR = kFSTPG;
  for (const uint32_t* const end = data + size / 4; data != end && errors == 0;) {
    for (const uint32_t* const row_end = data + kRowWords; data != row_end;) {
      *flash++ = *data++;
    }
    errors = finish();
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
