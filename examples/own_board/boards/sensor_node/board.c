#include "firmware/board.h"

#include "firmware/chips/stm32/stm32.h"

// Source: reference manual RM0434 and data sheet DS11929, named by section title. Base addresses:
// RM0434, "Memory organization", "Memory map and register boundary addresses".
#define RCC 0x58000000u
#define USART1 0x40013800u

// RCC, "Clocks": after reset the core runs from MSI at 4 MHz, for which flash needs no wait states.
// The node sleeps most of the time, so that is what it stays at.
enum { kClockHz = 4000000, kBaud = 115200, kUsart1Interrupt = 36 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

#if ET_LOG_ENABLED

/// USART1, 115200 8N1, on PA9 and PA10: alternate function 7 (DS11929, "Alternate functions").
static void start_console(void) {
  STM32_RCC_AHB2ENR(RCC) |= 1u << 0;  // port A
  STM32_RCC_APB2ENR(RCC) |= 1u << 14; // USART1
  // RCC, "Peripheral clock enable": the clock reaches the peripheral two cycles after the bit is
  // set; reading back takes longer.
  (void)STM32_RCC_APB2ENR(RCC);
  stm32_pin_function('A', 9, 7);
  stm32_pin_function('A', 10, 7);
  // Rounded: 114286 baud, off by 0.8 %.
  stm32_usart_start(USART1, (kClockHz + kBaud / 2) / kBaud);
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  cortex_m_start_cycle_counter();
#if ET_LOG_ENABLED
  start_console();
#endif
}

uint32_t board_ticks(void) {
  return cortex_m_cycles();
}

void board_console_write(const char* data, size_t size) {
  stm32_usart_write(USART1, data, size);
}

int board_console_read(void) {
  return stm32_usart_read(USART1, kUsart1Interrupt);
}
