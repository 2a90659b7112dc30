#include "firmware/board.h"

#include "firmware/chips/stm32/stm32.h"
#include "firmware/chips/stm32/stm32_board.h"

// Source: reference manual RM0434, data sheet DS11929 and the board's user manual UM2435, named by
// section title. Base addresses: RM0434, "Memory organization", "Memory map and register boundary
// addresses".
#define RCC 0x58000000u
#define PWR 0x58000400u
#define FLASH 0x58004000u

// "RCC registers": extended clock configuration: SHDHPRE 3:0, C2HPRE 7:4, C2HPREF 17.
#define RCC_EXTCFGR STM32_REGISTER(RCC, 0x108)

const BoardClock board_clock = {64000000, 1, 1, "cycles"};

/// The user's LED, LD1 (blue), on PB5, and button, SW1, on PC4 (UM2435, "LEDs", "Push buttons").
const Stm32Board stm32_board = {
    .rcc = RCC,
    .usart1_interrupt = 36,
    .led_port = 'B',
    .led_pin = 5,
    .button_port = 'C',
    .button_pin = 4,
};

/// 64 MHz from the crystal: HSE 32 MHz / 2 * 8 = 128 MHz in the PLL, / 2 at its output R. The
/// crystal's load capacitors (RCC_HSECR.HSETUNE) stay as after reset: only the radio needs it
/// exact.
void stm32_start_clock(void) {
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
