#include "firmware/chips/nrf/nrf52840.h"

/// nRF52840 DK User Guide: the debugger's serial port on P0.06 and P0.08; LED1 and Button 1 pull
/// their pins low.
const Nrf52840Board nrf52840_board = {.tx = 6, .rx = 8, .led = 13, .led_on = false};

enum { kButton = 11 };

bool board_button(void) {
  NRF_GPIO_PIN_CNF(kButton) = kNrfInputPullUp;
  return (NRF_GPIO_IN(kButton) >> kButton & 1) == 0;
}
