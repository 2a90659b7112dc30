#include "firmware/board.h"

#include "firmware/chips/stm32/stm32.h"
#include "firmware/chips/stm32/stm32_board.h"

// Source: reference manual RM0351, data sheet DS10969 and the board's user manual UM2153, named by
// section title. Base addresses: RM0351, "Memory organization", "Memory map and register boundary
// addresses".
#define RCC 0x40021000u
#define PWR 0x40007000u
#define FLASH 0x40022000u

const BoardClock board_clock = {80000000, 1, 1, "cycles"};

/// The user's LED, LD2, on PB14, and button, B2, on PC13 (UM2153, "LEDs", "Push buttons").
const Stm32Board stm32_board = {
    .rcc = RCC,
    .usart1_interrupt = 37,
    .led_port = 'B',
    .led_pin = 14,
    .button_port = 'C',
    .button_pin = 13,
};

/// 80 MHz from MSI, the 4 MHz oscillator that runs after reset, for the board has no crystal for
/// HSE: 4 MHz * 40 = 160 MHz in the PLL, / 2 at its output R.
void stm32_start_clock(void) {
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
