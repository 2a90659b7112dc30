#pragma once

#include <stdint.h>

/// A board of ST's with an STM32L4 or STM32WB: its console is USART1 on PB6 (TX) and PB7 (RX),
/// which the ST-LINK shows as a serial port; a LED that a high level turns on, and a button that
/// pulls its pin low. stm32_board.c implements firmware/board.h for it.
typedef struct {
  /// Base address of the RCC.
  uint32_t rcc;
  /// Number of USART1's interrupt: the reference manual's vector table.
  unsigned usart1_interrupt;
  char led_port;
  unsigned led_pin;
  char button_port;
  unsigned button_pin;
} Stm32Board;

/// Each board defines it.
extern const Stm32Board stm32_board;

/// Each board's: takes SYSCLK, and with it PCLK2, to the frequency of board_clock.
void stm32_start_clock(void);
