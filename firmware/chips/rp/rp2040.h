#pragma once

/// Registers of the RP2040. Source: its datasheet, named by section title ("List of Registers" of
/// the chapter given). Base addresses: "Address Map".
#define RESETS_BASE 0x4000C000u
#define XOSC_BASE 0x40024000u
#define PLL_SYS_BASE 0x40028000u
#define PLL_USB_BASE 0x4002C000u
#define CLOCKS_BASE 0x40008000u
#define IO_BANK0_BASE 0x40014000u
#define PADS_BANK0_BASE 0x4001C000u
#define UART0_BASE 0x40034000u
#define WATCHDOG_BASE 0x40058000u
#define PSM_BASE 0x40010000u

/// "Resets".
enum {
  kResetIoBank0 = 1 << 5,
  kResetPadsBank0 = 1 << 8,
  kResetPllSys = 1 << 12,
  kResetPllUsb = 1 << 13,
  kResetTimer = 1 << 21,
  kResetUart0 = 1 << 22,
  kResetUsb = 1 << 24,
};

/// "PLL" and "Clocks": 12 MHz * 125 / 6 / 2; dividers have 8 bits of fraction.
enum {
  kClockHz = 125000000,
  kPllSysFeedback = 125,
  kPllSysPostdiv1 = 6,
  kPllSysPostdiv2 = 2,
  kDividerOne = 1 << 8,
};
#define CLK_USB_CTRL RP_REGISTER(CLOCKS_BASE, 0x54)

/// "Interrupts": numbers.
enum { kUsbInterrupt = 5, kUart0Interrupt = 20 };

/// "Watchdog", "Tick generation": ENABLE 9, CYCLES of clk_ref 8:0; the timer counts these ticks,
/// too.
#define WATCHDOG_TICK RP_REGISTER(WATCHDOG_BASE, 0x2C)

/// Erratum RP2040-E1: a tick, which is a microsecond, counts twice. The longest time is 8.3 s.
enum { kWatchdogCountsPerMillisecond = 2000 };

/// "Power-On State Machine": all but the oscillators ROSC 0 and XOSC 1.
enum { kPsmAllButOscillators = 0x1FFFF & ~(1 << 0 | 1 << 1) };

/// "Timer": the lower word of the time, without side effects.
#define TIMER_TIMERAWL RP_REGISTER(0x40054000u, 0x28)

/// "SIO": GPIO_OUT_SET and _CLR, GPIO_OE_SET.
#define SIO_GPIO_OUT_SET RP_REGISTER(0xD0000000u, 0x14)
#define SIO_GPIO_OUT_CLR RP_REGISTER(0xD0000000u, 0x18)
#define SIO_GPIO_OE_SET RP_REGISTER(0xD0000000u, 0x24)
