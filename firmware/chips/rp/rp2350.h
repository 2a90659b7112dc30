#pragma once

/// Registers of the RP2350. Source: its datasheet, named by section title ("List of Registers" of
/// the chapter given). Base addresses: "Address Map".
#define RESETS_BASE 0x40020000u
#define XOSC_BASE 0x40048000u
#define PLL_SYS_BASE 0x40050000u
#define PLL_USB_BASE 0x40058000u
#define CLOCKS_BASE 0x40010000u
#define IO_BANK0_BASE 0x40028000u
#define PADS_BANK0_BASE 0x40038000u
#define UART0_BASE 0x40070000u
#define WATCHDOG_BASE 0x400D8000u
#define PSM_BASE 0x40018000u

/// "Resets".
enum {
  kResetIoBank0 = 1 << 6,
  kResetPadsBank0 = 1 << 9,
  kResetPllSys = 1 << 14,
  kResetPllUsb = 1 << 15,
  kResetUart0 = 1 << 26,
  kResetUsb = 1 << 28,
};

/// "PLL" and "Clocks": 12 MHz * 125 / 5 / 2; dividers have 16 bits of fraction.
enum {
  kClockHz = 150000000,
  kPllSysFeedback = 125,
  kPllSysPostdiv1 = 5,
  kPllSysPostdiv2 = 2,
  kDividerOne = 1 << 16,
};
#define CLK_USB_CTRL RP_REGISTER(CLOCKS_BASE, 0x60)

/// "Interrupts": numbers.
enum { kUsbInterrupt = 14, kUart0Interrupt = 33 };

/// "Tick Generators": the watchdog's divides clk_ref. CTRL: ENABLE 0.
#define TICKS_WATCHDOG_CTRL RP_REGISTER(0x40108000u, 0x30)
#define TICKS_WATCHDOG_CYCLES RP_REGISTER(0x40108000u, 0x34)

/// "Watchdog": a tick is a microsecond.
enum { kWatchdogCountsPerMillisecond = 1000 };

/// "Power-On State Machine": all but the oscillators ROSC 2 and XOSC 3.
enum { kPsmAllButOscillators = 0x1FFFFFF & ~(1 << 2 | 1 << 3) };
