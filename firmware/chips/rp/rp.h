#pragma once

#include "firmware/cortex_m/core.h"

/// The common part of the RP2040 and the RP2350. The chip's header (rp2040.h, rp2350.h) has base
/// addresses and the differences; the board's `parts` define which chip it is. Source: the chips'
/// datasheets, named by section title ("List of Registers" of the chapter given).

#include RP_CHIP_HEADER

#define RP_REGISTER(base, offset) CORTEX_M_REGISTER((base) + (offset))
/// "Atomic Register Access": the same register at other addresses, where a write sets or clears
/// bits.
#define RP_SET(base, offset) CORTEX_M_REGISTER((base) + 0x2000u + (offset))
#define RP_CLEAR(base, offset) CORTEX_M_REGISTER((base) + 0x3000u + (offset))

/// "Resets".
#define RESETS_RESET 0x0u
#define RESETS_DONE RP_REGISTER(RESETS_BASE, 0x8)

/// "Crystal Oscillator (XOSC)": CTRL enables by magic values, STATUS 31 is STABLE, STARTUP counts
/// 256 cycles.
#define XOSC_CTRL RP_REGISTER(XOSC_BASE, 0x00)
#define XOSC_STATUS RP_REGISTER(XOSC_BASE, 0x04)
#define XOSC_STARTUP RP_REGISTER(XOSC_BASE, 0x0C)

/// "Phase-Locked Loop (PLL)": CS 31 is LOCK, 5:0 REFDIV; PWR 0 PD, 3 POSTDIVPD, 5 VCOPD; PRIM 18:16
/// POSTDIV1, 14:12 POSTDIV2.
#define PLL_CS(base) RP_REGISTER(base, 0x0)
#define PLL_PWR 0x4u
#define PLL_FBDIV_INT(base) RP_REGISTER(base, 0x8)
#define PLL_PRIM(base) RP_REGISTER(base, 0xC)

/// "Clocks".
#define CLK_REF_CTRL RP_REGISTER(CLOCKS_BASE, 0x30)
#define CLK_REF_SELECTED RP_REGISTER(CLOCKS_BASE, 0x38)
#define CLK_SYS_CTRL RP_REGISTER(CLOCKS_BASE, 0x3C)
#define CLK_SYS_DIV RP_REGISTER(CLOCKS_BASE, 0x40)
#define CLK_SYS_SELECTED RP_REGISTER(CLOCKS_BASE, 0x44)
#define CLK_PERI_CTRL RP_REGISTER(CLOCKS_BASE, 0x48)

/// "GPIO", "IO - User Bank" and "Pad Control - User Bank".
#define GPIO_CTRL(pin) RP_REGISTER(IO_BANK0_BASE, 8 * (pin) + 4)
#define PAD(pin) RP_REGISTER(PADS_BANK0_BASE, 4 * (pin) + 4)

/// "UART".
#define UART0_DR RP_REGISTER(UART0_BASE, 0x00)
#define UART0_FR RP_REGISTER(UART0_BASE, 0x18) // RXFE 4, TXFF 5
#define UART0_IBRD RP_REGISTER(UART0_BASE, 0x24)
#define UART0_FBRD RP_REGISTER(UART0_BASE, 0x28)
#define UART0_LCR_H RP_REGISTER(UART0_BASE, 0x2C) // FEN 4, WLEN 6:5
#define UART0_CR RP_REGISTER(UART0_BASE, 0x30)    // UARTEN 0, TXE 8, RXE 9
#define UART0_IMSC RP_REGISTER(UART0_BASE, 0x38)  // RXIM 4, RTIM 6

/// "Watchdog": CTRL: ENABLE 30; LOAD: ticks.
#define WATCHDOG_CTRL RP_REGISTER(WATCHDOG_BASE, 0x0)
#define WATCHDOG_LOAD RP_REGISTER(WATCHDOG_BASE, 0x4)

/// "Power-On State Machine": what a watchdog resets.
#define PSM_WDSEL RP_REGISTER(PSM_BASE, 0x8)

static inline void rp_wait_for(volatile uint32_t* reg, uint32_t mask, uint32_t value) {
  while ((*reg & mask) != value) {
  }
}

/// Takes peripherals out of reset: "Resets".
static inline void rp_release(uint32_t mask) {
  RP_CLEAR(RESETS_BASE, RESETS_RESET) = mask;
  rp_wait_for(&RESETS_DONE, mask, mask);
}

/// Starts a PLL from the crystal: 12 MHz * feedback / postdiv1 / postdiv2. "PLL", "Configuration":
/// the oscillator runs at 750 to 1600 MHz, the dividers are powered after it locked.
static inline void
rp_start_pll(uint32_t base, uint32_t feedback, uint32_t postdiv1, uint32_t postdiv2) {
  PLL_CS(base) = 1; // REFDIV
  PLL_FBDIV_INT(base) = feedback;
  RP_CLEAR(base, PLL_PWR) = 1u << 0 | 1u << 5;
  rp_wait_for(&PLL_CS(base), 1u << 31, 1u << 31);
  PLL_PRIM(base) = postdiv1 << 16 | postdiv2 << 12;
  RP_CLEAR(base, PLL_PWR) = 1u << 3;
}

/// Starts what board_ticks() counts; clk_ref is the crystal.
void rp_start_ticks(void);

/// Starts what the watchdog counts.
void rp_start_watchdog_ticks(void);
