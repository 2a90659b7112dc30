#include "firmware/chips/nrf/nrf52840.h"

enum { kClockHz = 64000000 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

void board_init(void) {
  if ((NRF_UICR_APPROTECT & 0xFF) == kNrfHwDisabled) {
    NRF_APPROTECT_DISABLE = kNrfSwDisable;
  }
  // The core runs at 64 MHz from the start, by an oscillator that is too inexact for a UART: from
  // now on by the crystal.
  NRF_CLOCK_EVENTS_HFCLKSTARTED = 0;
  NRF_CLOCK_TASKS_HFCLKSTART = 1;
  while (NRF_CLOCK_EVENTS_HFCLKSTARTED == 0) {
  }
  // Flash has wait states; instructions come from the cache where they can.
  NRF_NVMC_ICACHECNF = 1;
  cortex_m_start_cycle_counter();
#if ET_LOG_ENABLED
  // "UART", "Pin configuration": TX idles high also while the UART is off.
  NRF_GPIO_OUTSET(nrf52840_board.tx) = 1u << nrf52840_board.tx % 32;
  NRF_GPIO_PIN_CNF(nrf52840_board.tx) = kNrfOutput;
  NRF_GPIO_PIN_CNF(nrf52840_board.rx) = kNrfInputPullUp;
  nrf_uart_start(nrf52840_board.tx, nrf52840_board.rx);
#endif
}

uint32_t board_ticks(void) {
  return cortex_m_cycles();
}

void board_console_write(const char* data, size_t size) {
  nrf_uart_write(data, size);
}

int board_console_read(void) {
#if BOARD_SLEEP
  NRF_UART_INTENSET = 1u << 2;
#endif
  while (NRF_UART_EVENTS_RXDRDY == 0) {
    board_waits();
#if BOARD_SLEEP
    cortex_m_wait_for_interrupt(1ull << kNrfUart0Interrupt);
#endif
  }
  return nrf_uart_take();
}

void board_led(bool on) {
  const uint32_t pin = nrf52840_board.led;
  NRF_GPIO_PIN_CNF(pin) = kNrfOutput;
  *(on == nrf52840_board.led_on ? &NRF_GPIO_OUTSET(pin) : &NRF_GPIO_OUTCLR(pin)) = 1u << pin % 32;
}

/// The time cannot change once the watchdog runs, also across a reset that it did not cause: the
/// first call decides.
void board_watchdog(uint32_t milliseconds) {
  if ((NRF_WDT_RUNSTATUS & 1) == 0) {
    // 32768 / 1000, the least time is 15 counts.
    NRF_WDT_CRV = milliseconds * 32 + milliseconds * 96 / 125 + 15;
    NRF_WDT_RREN = 1;
    NRF_WDT_TASKS_START = 1;
  }
  board_watchdog_feed();
}

void board_watchdog_feed(void) {
  NRF_WDT_RR0 = kNrfWdtKey;
}
