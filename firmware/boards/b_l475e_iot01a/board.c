#include "firmware/board.h"

#include "firmware/boards/stm32/stm32.h"

// Source: reference manual RM0351, data sheet DS10969 and the board's user manual UM2153, named by
// section title. Base addresses: RM0351, "Memory organization", "Memory map and register boundary
// addresses".
#define RCC 0x40021000u
#define PWR 0x40007000u
#define FLASH 0x40022000u
#define USART1 0x40013800u

enum { kClockHz = 80000000, kBaud = 115200, kUsart1Interrupt = 37 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

/// 80 MHz from MSI, the 4 MHz oscillator that runs after reset, for the board has no crystal for
/// HSE: 4 MHz * 40 = 160 MHz in the PLL, / 2 at its output R.
static void start_clock(void) {
  STM32_RCC_APB1ENR1(RCC) |= 1u << 28; // PWR
  (void)STM32_RCC_APB1ENR1(RCC);
  stm32_set_range_1(PWR);
  // FLASH, "Read access latency": in range 1 four wait states up to 80 MHz, set before the clock
  // rises.
  stm32_set_wait_states(FLASH, 4);
  // A debugger may have left the system on the PLL, which then cannot be turned off.
  STM32_RCC_CR(RCC) |= 1u << 0;
  stm32_wait_for(&STM32_RCC_CR(RCC), 1u << 1, 1u << 1);
  stm32_switch_clock(RCC, kStm32Msi);
  stm32_start_pll(
      RCC,
      1u /* MSI */ | (1u - 1) << 4 /* M */ | 40u << 8 /* N */ | 1u << 24 /* R on */ |
          0u << 25 /* R: 2 */);
  stm32_switch_clock(RCC, kStm32Pll);
}

/// The user's LED, LD2, on PB14, and button, B2, on PC13 (UM2153, "LEDs", "Push buttons").
static void start_pins(void) {
  STM32_RCC_AHB2ENR(RCC) |= 1u << 1 | 1u << 2; // GPIOB, GPIOC
  (void)STM32_RCC_AHB2ENR(RCC);
  stm32_pin_mode('B', 14, 1);
  stm32_pin_mode('C', 13, 0);
}

#if ET_LOG_ENABLED

/// USART1 on PB6 (TX) and PB7 (RX), alternate function 7 (DS10969, "Alternate functions"): the
/// ST-LINK's virtual COM port (UM2153, "USART"). 115200 8N1.
static void start_console(void) {
  STM32_RCC_APB2ENR(RCC) |= 1u << 14;
  (void)STM32_RCC_APB2ENR(RCC);
  stm32_pin_function('B', 6, 7);
  stm32_pin_function('B', 7, 7);
  // The USART's clock is PCLK2 after reset, here SYSCLK. Rounded: 115274 baud, off by 0.06 %.
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
  stm32_pin_write('B', 14, on);
}

bool board_button(void) {
  return stm32_pin_read('C', 13) == 0;
}
