#include "firmware/board.h"

#include "firmware/chips/rp/rp.h"
#include "firmware/chips/rp/usb.h"

// Boards with an RP2040 or RP2350 share this; the chip's header has the numbers that differ.

enum { kBaud = 115200, kTxPin = 0, kRxPin = 1 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

/// Sets kClockHz from the 12 MHz crystal. The boot ROM left the core on the ring oscillator, and
/// reads the flash in a way that suits the clock.
static void start_clock(void) {
  // A debugger's reset is the core's alone. Bytes that are still to be sent would go out at a wrong
  // rate while the clocks change.
  RP_SET(RESETS_BASE, RESETS_RESET) = kResetUart0 | kResetUsb;

  // "XOSC", "Startup Delay": 1 ms in units of 256 cycles, rounded up. The board's crystal starts
  // slower than some: six times as long.
  XOSC_STARTUP = 6 * 47;
  XOSC_CTRL = 0xFABu << 12 | 0xAA0u; // ENABLE, 1 to 15 MHz
  rp_wait_for(&XOSC_STATUS, 1u << 31, 1u << 31);

  // "Clocks", "Changing clk_sys": its source must be switched to clk_ref, glitch-free, before the
  // auxiliary one changes. A debugger may have left it on the PLL.
  CLK_SYS_CTRL &= ~1u;
  rp_wait_for(&CLK_SYS_SELECTED, 0x3, 1u << 0);
  CLK_REF_CTRL = 2; // XOSC
  rp_wait_for(&CLK_REF_SELECTED, 0xF, 1u << 2);

  RP_SET(RESETS_BASE, RESETS_RESET) = kResetPllSys;
  rp_release(kResetPllSys);
  rp_start_pll(PLL_SYS_BASE, kPllSysFeedback, kPllSysPostdiv1, kPllSysPostdiv2);

  CLK_SYS_DIV = kDividerOne;
  CLK_SYS_CTRL = 0u << 5;      // AUXSRC: PLL_SYS
  CLK_SYS_CTRL = 0u << 5 | 1u; // SRC: auxiliary
  rp_wait_for(&CLK_SYS_SELECTED, 0x3, 1u << 1);
}

#if ET_LOG_ENABLED

/// UART0 on GP0 (TX) and GP1 (RX), function 2 ("GPIO", "Function Select"), 115200 8N1.
static void start_console(void) {
  CLK_PERI_CTRL = 1u << 11; // ENABLE, from clk_sys
  rp_release(kResetUart0 | kResetIoBank0 | kResetPadsBank0);
  // "UART", "Baud Rate Generation": clk_peri / (16 * baud) in 64ths, rounded: at 125 MHz
  // 115187 baud, at 150 MHz 115207.
  const uint32_t divisor = (kClockHz * 4u + kBaud / 2) / kBaud;
  UART0_IBRD = divisor / 64;
  UART0_FBRD = divisor % 64;
  UART0_LCR_H = 3u << 5 | 1u << 4; // 8 bits, FIFOs
  UART0_CR = 1u << 0 | 1u << 8 | 1u << 9;
  GPIO_CTRL(kTxPin) = 2;
  GPIO_CTRL(kRxPin) = 2;
  // "Pads": out of the RP2350's isolation (ISO 8), input enabled (6), 4 mA (5:4), Schmitt trigger
  // (1); a pull-up (3) keeps an open RX quiet.
  PAD(kTxPin) = 1u << 6 | 1u << 4 | 1u << 1;
  PAD(kRxPin) = 1u << 6 | 1u << 4 | 1u << 3 | 1u << 1;
}

/// The USB serial port: clk_usb is 48 MHz, 12 * 100 / 5 / 5 ("USB", "Clocks").
static void start_usb(void) {
  RP_SET(RESETS_BASE, RESETS_RESET) = kResetPllUsb;
  rp_release(kResetPllUsb);
  rp_start_pll(PLL_USB_BASE, 100, 5, 5);
  CLK_USB_CTRL = 1u << 11; // ENABLE, from PLL_USB
  rp_release(kResetUsb);
  usb_start();
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  start_clock();
  rp_start_ticks();
#if ET_LOG_ENABLED
  start_console();
  start_usb();
#endif
}

void board_console_write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    board_waits();
    rp_wait_for(&UART0_FR, 1u << 5, 0);
    UART0_DR = (uint8_t)data[i];
  }
  usb_write(data, size);
}

int board_console_read(void) {
  for (;;) {
    board_waits();
    if ((UART0_FR & 1u << 4) == 0) {
      return (int)(UART0_DR & 0xFF);
    }
    const int byte = usb_read();
    if (byte >= 0) {
      return byte;
    }
#if BOARD_SLEEP
    // "UART", "Interrupts": with FIFOs a byte wakes by the receive timeout, after 32 bits of quiet.
    UART0_IMSC = 1u << 4 | 1u << 6;
    usb_enable_interrupts();
    cortex_m_wait_for_interrupt(1ull << kUart0Interrupt | 1ull << kUsbInterrupt);
#endif
  }
}

/// LOAD cannot be read.
static uint32_t watchdog_load;

void board_watchdog(uint32_t milliseconds) {
  const uint32_t kLongest = 0xFFFFFF / kWatchdogCountsPerMillisecond;
  if ((WATCHDOG_CTRL & 1u << 30) == 0) {
    rp_start_watchdog_ticks();
    PSM_WDSEL = kPsmAllButOscillators;
  }
  watchdog_load =
      kWatchdogCountsPerMillisecond * (milliseconds < kLongest ? milliseconds : kLongest);
  board_watchdog_feed();
  WATCHDOG_CTRL |= 1u << 30;
}

void board_watchdog_feed(void) {
  WATCHDOG_LOAD = watchdog_load;
}
