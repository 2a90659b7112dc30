#pragma once

#include <stdbool.h>

#include "firmware/chips/nrf/nrf.h"

/// Registers of the nRF52840. Source: nRF52840 Product Specification, named by chapter.

/// "CLOCK".
#define NRF_CLOCK_TASKS_HFCLKSTART CORTEX_M_REGISTER(0x40000000u)
#define NRF_CLOCK_EVENTS_HFCLKSTARTED CORTEX_M_REGISTER(0x40000100u)

/// "GPIO": two ports. PIN_CNF: DIR 0, INPUT 1 (1: disconnected), PULL 3:2 (3: up).
#define NRF_GPIO(pin) (0x50000000u + 0x300u * ((pin) / 32))
#define NRF_GPIO_OUTSET(pin) CORTEX_M_REGISTER(NRF_GPIO(pin) + 0x508)
#define NRF_GPIO_OUTCLR(pin) CORTEX_M_REGISTER(NRF_GPIO(pin) + 0x50C)
#define NRF_GPIO_IN(pin) CORTEX_M_REGISTER(NRF_GPIO(pin) + 0x510)
#define NRF_GPIO_PIN_CNF(pin) CORTEX_M_REGISTER(NRF_GPIO(pin) + 0x700 + 4 * ((pin) % 32))
enum { kNrfOutput = 1 << 0 | 1 << 1, kNrfInput = 0, kNrfInputPullUp = 3 << 2 };

/// "WDT": CRV counts 32768 a second, less one; RR[0] takes the key.
#define NRF_WDT_TASKS_START CORTEX_M_REGISTER(0x40010000u)
#define NRF_WDT_RUNSTATUS CORTEX_M_REGISTER(0x40010400u)
#define NRF_WDT_CRV CORTEX_M_REGISTER(0x40010504u)
#define NRF_WDT_RREN CORTEX_M_REGISTER(0x40010508u)
#define NRF_WDT_RR0 CORTEX_M_REGISTER(0x40010600u)
enum { kNrfWdtKey = 0x6E524635 };

/// "NVMC": ICACHECNF: CACHEEN 0.
#define NRF_NVMC_ICACHECNF CORTEX_M_REGISTER(0x4001E540u)

/// "Access port protection": in chips from build code Fxx on, a debugger gets in only after the
/// firmware let it, and only if UICR.APPROTECT says so, too. Others have nothing there.
#define NRF_APPROTECT_DISABLE CORTEX_M_REGISTER(0x40000558u)
#define NRF_UICR_APPROTECT CORTEX_M_REGISTER(0x10001208u)
enum { kNrfHwDisabled = 0x5A, kNrfSwDisable = 0x5A };

/// "Peripherals", "Interrupts": numbers.
enum { kNrfUart0Interrupt = 2 };

/// The differences between boards; pins have their port in bit 5.
typedef struct {
  uint8_t tx, rx;
  uint8_t led;
  /// The level that turns the LED on.
  bool led_on;
} Nrf52840Board;

extern const Nrf52840Board nrf52840_board;
