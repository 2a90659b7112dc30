#include "firmware/board.h"

#include "firmware/boards/pico2_w/rp2350.h"
#include "firmware/boards/pico2_w/usb.h"

enum { kClockHz = 150000000, kBaud = 115200, kTxPin = 0, kRxPin = 1 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

static void wait_for(volatile uint32_t* reg, uint32_t mask, uint32_t value) {
  while ((*reg & mask) != value) {
  }
}

/// Takes peripherals out of reset: "Resets".
static void release(uint32_t mask) {
  RP2350_CLEAR(RESETS_BASE, RESETS_RESET) = mask;
  wait_for(&RESETS_DONE, mask, mask);
}

/// A PLL from the crystal: 12 MHz * feedback / postdiv1 / postdiv2. "PLL", "Configuration": the
/// oscillator runs at 750 to 1600 MHz, the dividers are powered after it locked.
static void start_pll(uint32_t base, uint32_t feedback, uint32_t postdiv1, uint32_t postdiv2) {
  PLL_CS(base) = 1; // REFDIV
  PLL_FBDIV_INT(base) = feedback;
  RP2350_CLEAR(base, PLL_PWR) = 1u << 0 | 1u << 5;
  wait_for(&PLL_CS(base), 1u << 31, 1u << 31);
  PLL_PRIM(base) = postdiv1 << 16 | postdiv2 << 12;
  RP2350_CLEAR(base, PLL_PWR) = 1u << 3;
}

/// 150 MHz from the 12 MHz crystal: 12 * 125 / 5 / 2. The boot ROM left the core on the ring
/// oscillator, and the flash in a mode that suits the datasheet's clocks.
static void start_clock(void) {
  // A debugger's reset is the core's alone. What has been left to send would go out at a wrong rate
  // while the clocks change.
  RP2350_SET(RESETS_BASE, RESETS_RESET) = kResetUart0 | kResetUsb;

  // "XOSC", "Startup Delay": 1 ms in units of 256 cycles, rounded up. The board's crystal starts
  // slower than some: six times as long.
  XOSC_STARTUP = 6 * 47;
  XOSC_CTRL = 0xFABu << 12 | 0xAA0u; // ENABLE, 1 to 15 MHz
  wait_for(&XOSC_STATUS, 1u << 31, 1u << 31);

  // "Clocks", "Changing clk_sys": its source must be switched to clk_ref, glitch-free, before the
  // auxiliary one changes. A debugger may have left it on the PLL.
  CLK_SYS_CTRL &= ~1u;
  wait_for(&CLK_SYS_SELECTED, 0x3, 1u << 0);
  CLK_REF_CTRL = 2; // XOSC
  wait_for(&CLK_REF_SELECTED, 0xF, 1u << 2);

  RP2350_SET(RESETS_BASE, RESETS_RESET) = kResetPllSys;
  release(kResetPllSys);
  start_pll(PLL_SYS_BASE, 125, 5, 2);

  CLK_SYS_DIV = 1u << 16;
  CLK_SYS_CTRL = 0u << 5;      // AUXSRC: PLL_SYS
  CLK_SYS_CTRL = 0u << 5 | 1u; // SRC: auxiliary
  wait_for(&CLK_SYS_SELECTED, 0x3, 1u << 1);
}

#if ET_LOG_ENABLED

/// UART0 on GP0 (TX) and GP1 (RX), function 2 ("GPIO", "Function Select"), 115200 8N1.
static void start_console(void) {
  CLK_PERI_CTRL = 1u << 11; // ENABLE, from clk_sys
  release(kResetUart0 | kResetIoBank0 | kResetPadsBank0);
  // "UART", "Baud Rate Generation": clk_peri / (16 * baud) in 64ths. Rounded: 115207 baud.
  const uint32_t divisor = (kClockHz * 4u + kBaud / 2) / kBaud;
  UART0_IBRD = divisor / 64;
  UART0_FBRD = divisor % 64;
  UART0_LCR_H = 3u << 5 | 1u << 4; // 8 bits, FIFOs
  UART0_CR = 1u << 0 | 1u << 8 | 1u << 9;
  GPIO_CTRL(kTxPin) = 2;
  GPIO_CTRL(kRxPin) = 2;
  // "Pads": out of isolation (ISO 8), input enabled (6), 4 mA (5:4), Schmitt trigger (1); a pull-up
  // (3) keeps an open RX quiet.
  PAD(kTxPin) = 1u << 6 | 1u << 4 | 1u << 1;
  PAD(kRxPin) = 1u << 6 | 1u << 4 | 1u << 3 | 1u << 1;
}

/// The USB serial port: clk_usb is 48 MHz, 12 * 100 / 5 / 5 ("USB", "Clocks").
static void start_usb(void) {
  RP2350_SET(RESETS_BASE, RESETS_RESET) = kResetPllUsb;
  release(kResetPllUsb);
  start_pll(PLL_USB_BASE, 100, 5, 5);
  CLK_USB_CTRL = 1u << 11; // ENABLE, from PLL_USB
  release(kResetUsb);
  usb_start();
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  start_clock();
  cortex_m_start_cycle_counter();
#if ET_LOG_ENABLED
  start_console();
  start_usb();
#endif
}

uint32_t board_ticks(void) {
  return cortex_m_cycles();
}

void board_console_write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    board_waits();
    wait_for(&UART0_FR, 1u << 5, 0);
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
  const uint32_t kLongest = 0xFFFFFF / 1000;
  if ((WATCHDOG_CTRL & 1u << 30) == 0) {
    // A tick is a microsecond: clk_ref is the crystal.
    TICKS_WATCHDOG_CYCLES = 12;
    TICKS_WATCHDOG_CTRL = 1;
    // All but the oscillators.
    PSM_WDSEL = 0x1FFFFFFu & ~(1u << 2 | 1u << 3);
  }
  watchdog_load = 1000 * (milliseconds < kLongest ? milliseconds : kLongest);
  board_watchdog_feed();
  WATCHDOG_CTRL |= 1u << 30;
}

void board_watchdog_feed(void) {
  WATCHDOG_LOAD = watchdog_load;
}
