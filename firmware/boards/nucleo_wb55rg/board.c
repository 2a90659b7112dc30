#include "firmware/board.h"

#include "firmware/boards/stm32/stm32.h"

// Source: reference manual RM0434, data sheet DS11929 and the board's user manual UM2435, named by
// section title. Base addresses: RM0434, "Memory organization", "Memory map and register boundary
// addresses".
#define RCC 0x58000000u
#define PWR 0x58000400u
#define FLASH 0x58004000u
#define USART1 0x40013800u

// "RCC registers": extended clock configuration: SHDHPRE 3:0, C2HPRE 7:4, C2HPREF 17.
#define RCC_EXTCFGR STM32_REGISTER(RCC, 0x108)

enum { kClockHz = 64000000, kBaud = 115200, kUsart1Interrupt = 36 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

/// 64 MHz from the crystal: HSE 32 MHz / 2 * 8 = 128 MHz in the PLL, / 2 at its output R.
static void start_clock(void) {
  // 64 MHz needs range 1, which is the one after reset; not so after every boot loader.
  stm32_set_range_1(PWR);
  // FLASH, "Read access latency", table of wait states by HCLK4: in range 1 three up to 64 MHz, set
  // before the clock rises.
  stm32_set_wait_states(FLASH, 3);

  STM32_RCC_CR(RCC) |= 1u << 16;
  stm32_wait_for(&STM32_RCC_CR(RCC), 1u << 17, 1u << 17);
  // A debugger may have left the system on the PLL, which then cannot be turned off.
  stm32_switch_clock(RCC, kStm32Hse);
  stm32_start_pll(
      RCC,
      3u /* HSE */ | (2u - 1) << 4 /* M */ | 8u << 8 /* N */ | 1u << 28 /* R on */ |
          (2u - 1) << 29 /* R */);

  // RCC, "Clocks": HCLK2, the radio core's, is limited to 32 MHz: SYSCLK / 2 (value 8). HCLK4, of
  // flash and SRAM2, stays SYSCLK.
  RCC_EXTCFGR = (RCC_EXTCFGR & ~0xFFu) | 8u << 4;
  stm32_wait_for(&RCC_EXTCFGR, 1u << 17, 1u << 17);

  stm32_switch_clock(RCC, kStm32Pll);
}

/// The user's LED, LD1 (blue), on PB5, and button, SW1, on PC4 (UM2435, "LEDs", "Push buttons").
static void start_pins(void) {
  STM32_RCC_AHB2ENR(RCC) |= 1u << 1 | 1u << 2; // GPIOB, GPIOC
  // RCC, "Peripheral clock enable": the clock reaches the peripheral two cycles after the bit is
  // set; reading back takes longer.
  (void)STM32_RCC_AHB2ENR(RCC);
  stm32_pin_mode('B', 5, 1);
  stm32_pin_mode('C', 4, 0);
}

#if ET_LOG_ENABLED

/// USART1 on PB6 (TX) and PB7 (RX), alternate function 7 (DS11929, "Alternate functions"): the
/// ST-LINK's virtual COM port (UM2435, "Virtual COM port"). 115200 8N1.
static void start_console(void) {
  STM32_RCC_APB2ENR(RCC) |= 1u << 14;
  (void)STM32_RCC_APB2ENR(RCC);
  stm32_pin_function('B', 6, 7);
  stm32_pin_function('B', 7, 7);
  // The USART's clock is PCLK2 after reset, here SYSCLK. Rounded: 115108 baud, off by 0.08 %.
  stm32_usart_start(USART1, (kClockHz + kBaud / 2) / kBaud);
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  start_clock();
  // Counts core cycles; a debugger may have left it running.
  DEMCR |= 1u << 24;
  DWT_CYCCNT = 0;
  DWT_CTRL |= 1;
  start_pins();
#if ET_LOG_ENABLED
  start_console();
#endif
}

uint32_t board_ticks(void) {
  return DWT_CYCCNT;
}

void board_console_write(const char* data, size_t size) {
  stm32_usart_write(USART1, data, size);
}

int board_console_read(void) {
  return stm32_usart_read(USART1, kUsart1Interrupt);
}

void board_led(bool on) {
  stm32_pin_write('B', 5, on);
}

bool board_button(void) {
  return stm32_pin_read('C', 4) == 0;
}

// "Independent watchdog (IWDG)": KR starts (0xCCCC), feeds (0xAAAA) and unlocks (0x5555); PR 6:
// LSI / 256, RLR: ticks. LSI is 32 kHz: 8 ms a tick.
#define IWDG_KR STM32_REGISTER(0x40003000u, 0x00)
#define IWDG_PR STM32_REGISTER(0x40003000u, 0x04)
#define IWDG_RLR STM32_REGISTER(0x40003000u, 0x08)
#define IWDG_SR STM32_REGISTER(0x40003000u, 0x0C)

void board_watchdog(uint32_t milliseconds) {
  const uint32_t ticks = milliseconds / 8;
  IWDG_KR = 0xCCCC;
  IWDG_KR = 0x5555;
  IWDG_PR = 6;
  IWDG_RLR = ticks < 0xFFF ? ticks : 0xFFF;
  stm32_wait_for(&IWDG_SR, 7, 0);
  IWDG_KR = 0xAAAA;
}
