#include "firmware/board.h"

#include "firmware/cortex_m/core.h"

// Registers of the STM32WB55. Source: its reference manual RM0434, named by chapter and section
// title, because numbers change between revisions. Base addresses: "Memory organization", "Memory
// map and register boundary addresses".
#define REGISTER(base, offset) CORTEX_M_REGISTER((base) + (offset))

// "Reset and clock control (RCC)", "RCC registers".
#define RCC_BASE 0x58000000u
#define RCC_CR REGISTER(RCC_BASE, 0x00)   // clock control: HSEON 16, HSERDY 17, PLLON 24, PLLRDY 25
#define RCC_CFGR REGISTER(RCC_BASE, 0x08) // clock configuration: SW 1:0, SWS 3:2 (3: PLL)
#define RCC_PLLCFGR \
  REGISTER(         \
      RCC_BASE, 0x0C) // PLL configuration: PLLSRC 1:0, PLLM 6:4, PLLN 14:8, PLLREN 28, PLLR 31:29
#define RCC_AHB2ENR REGISTER(RCC_BASE, 0x4C) // AHB2 peripheral clock enable: GPIOBEN 1
#define RCC_APB2ENR REGISTER(RCC_BASE, 0x60) // APB2 peripheral clock enable: USART1EN 14
#define RCC_EXTCFGR \
  REGISTER(RCC_BASE, 0x108) // extended clock configuration: SHDHPRE 3:0, C2HPRE 7:4, C2HPREF 17

// "Power control (PWR)", "PWR registers".
#define PWR_BASE 0x58000400u
#define PWR_CR1 REGISTER(PWR_BASE, 0x00) // control 1: VOS 10:9 (1: range 1)
#define PWR_SR2 \
  REGISTER(PWR_BASE, 0x14) // status 2: VOSF 10: the regulator has not reached the range yet

// "Embedded flash memory (FLASH)", "FLASH registers".
#define FLASH_BASE 0x58004000u
#define FLASH_ACR \
  REGISTER(FLASH_BASE, 0x00) // access control: LATENCY 2:0, PRFTEN 8, ICEN 9, DCEN 10

// "General-purpose I/Os (GPIO)", "GPIO registers".
#define GPIOB_BASE 0x48000400u
#define GPIOB_MODER REGISTER(GPIOB_BASE, 0x00)   // mode: 2 bits per pin, 2: alternate function
#define GPIOB_OSPEEDR REGISTER(GPIOB_BASE, 0x08) // output speed: 2 bits per pin
#define GPIOB_AFRL REGISTER(GPIOB_BASE, 0x20)    // alternate function: 4 bits per pin 0 to 7

// "Universal synchronous/asynchronous receiver transmitter (USART/UART)", "USART registers".
#define USART1_BASE 0x40013800u
#define USART1_CR1 \
  REGISTER(USART1_BASE, 0x00) // UE 0, RE 2, TE 3; reset value: 8 data bits, no parity
#define USART1_BRR REGISTER(USART1_BASE, 0x0C) // clock / baud with oversampling by 16
#define USART1_ISR REGISTER(USART1_BASE, 0x1C) // ORE 3, RXNE 5, TXE 7
#define USART1_ICR REGISTER(USART1_BASE, 0x20) // ORECF 3
#define USART1_RDR REGISTER(USART1_BASE, 0x24)
#define USART1_TDR REGISTER(USART1_BASE, 0x28)

enum { kClockHz = 64000000, kBaud = 115200 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

static void wait_for(volatile uint32_t* reg, uint32_t mask, uint32_t value) {
  while ((*reg & mask) != value) {
  }
}

/// 64 MHz from the crystal: HSE 32 MHz / 2 * 8 = 128 MHz in the PLL, / 2 at its output R.
static void start_clock(void) {
  // PWR, "Dynamic voltage scaling management": 64 MHz needs range 1, which is the one after reset;
  // not so after every boot loader.
  PWR_CR1 = (PWR_CR1 & ~(3u << 9)) | 1u << 9;
  wait_for(&PWR_SR2, 1u << 10, 0);

  RCC_CR |= 1u << 16;
  wait_for(&RCC_CR, 1u << 17, 1u << 17);

  // RCC, "PLLs": PLLCFGR may only be written while the PLL is off, and a PLL that clocks the system
  // cannot be turned off.
  if ((RCC_CFGR >> 2 & 3) == 3) {
    RCC_CFGR = (RCC_CFGR & ~3u) | 2; // HSE
    wait_for(&RCC_CFGR, 3u << 2, 2u << 2);
  }
  RCC_CR &= ~(1u << 24);
  wait_for(&RCC_CR, 1u << 25, 0);
  RCC_PLLCFGR = 3u /* HSE */ | (2u - 1) << 4 /* M */ | 8u << 8 /* N */ | 1u << 28 /* R on */ |
      (2u - 1) << 29 /* R */;
  RCC_CR |= 1u << 24;
  wait_for(&RCC_CR, 1u << 25, 1u << 25);

  // RCC, "Clocks": HCLK2, the radio core's, is limited to 32 MHz: SYSCLK / 2 (value 8). HCLK4, of
  // flash and SRAM2, stays SYSCLK.
  RCC_EXTCFGR = (RCC_EXTCFGR & ~0xFFu) | 8u << 4;
  wait_for(&RCC_EXTCFGR, 1u << 17, 1u << 17);

  // FLASH, "Read access latency", table of wait states by HCLK4: in range 1 three up to 64 MHz, set
  // before the clock rises. Prefetch and both caches on.
  FLASH_ACR = (FLASH_ACR & ~7u) | 3u | 1u << 8 | 1u << 9 | 1u << 10;
  wait_for(&FLASH_ACR, 7, 3);

  RCC_CFGR = (RCC_CFGR & ~3u) | 3;
  wait_for(&RCC_CFGR, 3u << 2, 3u << 2);
}

#if ET_LOG_ENABLED

/// USART1 on PB6 (TX) and PB7 (RX), alternate function 7 (data sheet DS11929, "Alternate
/// functions"): the ST-LINK's virtual COM port on this board (user manual UM2435, "Virtual COM
/// port"). 115200 8N1.
static void start_console(void) {
  RCC_AHB2ENR |= 1u << 1;
  RCC_APB2ENR |= 1u << 14;
  // RCC, "Peripheral clock enable": the clock reaches the peripheral two cycles after the bit is
  // set; reading back takes longer.
  (void)RCC_APB2ENR;
  GPIOB_AFRL = (GPIOB_AFRL & ~(0xFFu << 24)) | 0x77u << 24;
  GPIOB_OSPEEDR |= 1u << 12;
  GPIOB_MODER = (GPIOB_MODER & ~(0xFu << 12)) | 0xAu << 12;
  USART1_CR1 = 0;
  // The USART's clock is PCLK2 after reset, here SYSCLK. Rounded: 115108 baud, off by 0.08 %.
  USART1_BRR = (kClockHz + kBaud / 2) / kBaud;
  USART1_CR1 = 1u << 0 | 1u << 2 | 1u << 3;
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  start_clock();
  // Counts core cycles; a debugger may have left it running.
  DEMCR |= 1u << 24;
  DWT_CYCCNT = 0;
  DWT_CTRL |= 1;
#if ET_LOG_ENABLED
  start_console();
#endif
}

uint32_t board_ticks(void) {
  return DWT_CYCCNT;
}

void board_console_write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    wait_for(&USART1_ISR, 1u << 7, 1u << 7);
    USART1_TDR = (uint8_t)data[i];
  }
}

int board_console_read(void) {
  // An overrun blocks the receiver until it is cleared.
  USART1_ICR = 1u << 3;
  wait_for(&USART1_ISR, 1u << 5, 1u << 5);
  return (int)(USART1_RDR & 0xFF);
}
