#include "firmware/chips/nrf/nrf52840.h"

/// Arduino Nano 33 BLE Sense, schematic: D1 is P1.03, D0 is P1.10; the LED is on P0.13, high turns
/// it on.
const Nrf52840Board nrf52840_board = {.tx = 32 + 3, .rx = 32 + 10, .led = 13, .led_on = true};
