#include "firmware/chips/rp/usb.h"

// The LED is the radio chip's.

const char usb_product[] = "Pico W console";
