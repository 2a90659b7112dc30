#pragma once

#include "firmware/cortex_m/core.h"

/// Registers of the RP2350. Source: its datasheet, named by section title ("List of Registers" of
/// the chapter given). Base addresses: "Address Map".

#define RP2350_REGISTER(base, offset) CORTEX_M_REGISTER((base) + (offset))
/// "Atomic Register Access": the same register at other addresses, where a write sets or clears
/// bits.
#define RP2350_SET(base, offset) CORTEX_M_REGISTER((base) + 0x2000u + (offset))
#define RP2350_CLEAR(base, offset) CORTEX_M_REGISTER((base) + 0x3000u + (offset))

/// "Resets".
#define RESETS_BASE 0x40020000u
#define RESETS_RESET 0x0u
#define RESETS_DONE RP2350_REGISTER(RESETS_BASE, 0x8)
enum {
  kResetIoBank0 = 1 << 6,
  kResetPadsBank0 = 1 << 9,
  kResetPllSys = 1 << 14,
  kResetPllUsb = 1 << 15,
  kResetUart0 = 1 << 26,
  kResetUsb = 1 << 28,
};

/// "Crystal Oscillator (XOSC)": CTRL enables by magic values, STATUS 31 is STABLE, STARTUP counts
/// 256 cycles.
#define XOSC_BASE 0x40048000u
#define XOSC_CTRL RP2350_REGISTER(XOSC_BASE, 0x00)
#define XOSC_STATUS RP2350_REGISTER(XOSC_BASE, 0x04)
#define XOSC_STARTUP RP2350_REGISTER(XOSC_BASE, 0x0C)

/// "Phase-Locked Loop (PLL)": CS 31 is LOCK, 5:0 REFDIV; PWR 0 PD, 3 POSTDIVPD, 5 VCOPD; PRIM 18:16
/// POSTDIV1, 14:12 POSTDIV2.
#define PLL_SYS_BASE 0x40050000u
#define PLL_USB_BASE 0x40058000u
#define PLL_CS(base) RP2350_REGISTER(base, 0x0)
#define PLL_PWR 0x4u
#define PLL_FBDIV_INT(base) RP2350_REGISTER(base, 0x8)
#define PLL_PRIM(base) RP2350_REGISTER(base, 0xC)

/// "Clocks".
#define CLOCKS_BASE 0x40010000u
#define CLK_REF_CTRL RP2350_REGISTER(CLOCKS_BASE, 0x30)
#define CLK_REF_SELECTED RP2350_REGISTER(CLOCKS_BASE, 0x38)
#define CLK_SYS_CTRL RP2350_REGISTER(CLOCKS_BASE, 0x3C)
#define CLK_SYS_DIV RP2350_REGISTER(CLOCKS_BASE, 0x40)
#define CLK_SYS_SELECTED RP2350_REGISTER(CLOCKS_BASE, 0x44)
#define CLK_PERI_CTRL RP2350_REGISTER(CLOCKS_BASE, 0x48)
#define CLK_USB_CTRL RP2350_REGISTER(CLOCKS_BASE, 0x60)

/// "GPIO", "IO - User Bank" and "Pad Control - User Bank".
#define IO_BANK0_BASE 0x40028000u
#define GPIO_CTRL(pin) RP2350_REGISTER(IO_BANK0_BASE, 8 * (pin) + 4)
#define PADS_BANK0_BASE 0x40038000u
#define PAD(pin) RP2350_REGISTER(PADS_BANK0_BASE, 4 * (pin) + 4)

/// "UART".
#define UART0_BASE 0x40070000u
#define UART0_DR RP2350_REGISTER(UART0_BASE, 0x00)
#define UART0_FR RP2350_REGISTER(UART0_BASE, 0x18) // RXFE 4, TXFF 5
#define UART0_IBRD RP2350_REGISTER(UART0_BASE, 0x24)
#define UART0_FBRD RP2350_REGISTER(UART0_BASE, 0x28)
#define UART0_LCR_H RP2350_REGISTER(UART0_BASE, 0x2C) // FEN 4, WLEN 6:5
#define UART0_CR RP2350_REGISTER(UART0_BASE, 0x30)    // UARTEN 0, TXE 8, RXE 9
#define UART0_IMSC RP2350_REGISTER(UART0_BASE, 0x38)  // RXIM 4, RTIM 6

/// "Interrupts": numbers.
enum { kUsbInterrupt = 14, kUart0Interrupt = 33 };

/// "Tick Generators": the watchdog's, which divides clk_ref. CTRL: ENABLE 0.
#define TICKS_WATCHDOG_CTRL RP2350_REGISTER(0x40108000u, 0x30)
#define TICKS_WATCHDOG_CYCLES RP2350_REGISTER(0x40108000u, 0x34)

/// "Power-On State Machine": what a watchdog resets: ROSC 2, XOSC 3, all 24:0.
#define PSM_WDSEL RP2350_REGISTER(0x40018000u, 0x8)

/// "Watchdog": CTRL: ENABLE 30; LOAD: ticks.
#define WATCHDOG_CTRL RP2350_REGISTER(0x400D8000u, 0x0)
#define WATCHDOG_LOAD RP2350_REGISTER(0x400D8000u, 0x4)
