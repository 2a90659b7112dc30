#include "firmware/chips/stm32/stm32_board.h"

#include "firmware/board.h"
#include "firmware/chips/stm32/stm32.h"

// Both families have them there: RM0434 and RM0351, "Memory map and register boundary addresses".
#define USART1 0x40013800u
#define IWDG 0x40003000u

enum { kBaud = 115200 };

/// LED and button.
static void start_pins(void) {
  // "RCC registers": bit 0 of AHB2ENR is port A.
  STM32_RCC_AHB2ENR(stm32_board.rcc) |= 1u << ('B' - 'A') | 1u << (stm32_board.led_port - 'A') |
      1u << (stm32_board.button_port - 'A');
  // RCC, "Peripheral clock enable": the clock reaches the peripheral two cycles after the bit is
  // set; reading back takes longer.
  (void)STM32_RCC_AHB2ENR(stm32_board.rcc);
  stm32_pin_mode(stm32_board.led_port, stm32_board.led_pin, 1);
  stm32_pin_mode(stm32_board.button_port, stm32_board.button_pin, 0);
}

#if ET_LOG_ENABLED

/// USART1, 115200 8N1. PB6 and PB7: alternate function 7 (data sheets DS11929 and DS10969,
/// "Alternate functions").
static void start_console(void) {
  STM32_RCC_APB2ENR(stm32_board.rcc) |= 1u << 14;
  (void)STM32_RCC_APB2ENR(stm32_board.rcc);
  stm32_pin_function('B', 6, 7);
  stm32_pin_function('B', 7, 7);
  // The USART's clock is PCLK2 after reset. Rounded: at 64 MHz 115108 baud, off by 0.08 %, at 80
  // MHz 115274, off by 0.06 %.
  stm32_usart_start(USART1, (board_clock.ticks_per_second + kBaud / 2) / kBaud);
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  stm32_start_clock();
  cortex_m_start_cycle_counter();
  start_pins();
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
  return stm32_usart_read(USART1, stm32_board.usart1_interrupt);
}

void board_led(bool on) {
  stm32_pin_write(stm32_board.led_port, stm32_board.led_pin, on);
}

bool board_button(void) {
  return stm32_pin_read(stm32_board.button_port, stm32_board.button_pin) == 0;
}

void board_watchdog(uint32_t milliseconds) {
  stm32_watchdog(IWDG, milliseconds);
}

void board_watchdog_feed(void) {
  stm32_watchdog_feed(IWDG);
}
