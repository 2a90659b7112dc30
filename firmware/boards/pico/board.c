#include "firmware/board.h"

#include "firmware/chips/rp/rp.h"
#include "firmware/chips/rp/usb.h"

const char usb_product[] = "Pico console";

/// Raspberry Pi Pico datasheet, "Pinout": the LED is on GPIO25, high turns it on.
enum { kLedPin = 25 };

void board_led(bool on) {
  rp_release(kResetIoBank0 | kResetPadsBank0);
  *(on ? &SIO_GPIO_OUT_SET : &SIO_GPIO_OUT_CLR) = 1u << kLedPin;
  SIO_GPIO_OE_SET = 1u << kLedPin;
  GPIO_CTRL(kLedPin) = 5; // "GPIO", "Function Select": SIO
}
