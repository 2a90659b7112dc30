#pragma once

#include <stddef.h>
#include <stdint.h>

/// An RP2040 or RP2350 as a USB serial port: class CDC, abstract control model (CDC 1.2 and
/// PSTN 1.2 specifications), which every operating system has a driver for. Polled, without
/// interrupts, so that an inference is never interrupted: the host is answered while the console is
/// used.

/// The board's name on the bus, which its image defines.
extern const char usb_product[];

/// Connects to the bus. clk_usb must be 48 MHz and the controller out of reset.
void usb_start(void);

/// Answers the host. Call it often while nothing else is to be done.
void usb_poll(void);

/// Sends bytes once a program on the host has opened the port. Until then the first kilobytes are
/// kept, and the rest is lost. Waits for a host that reads slowly.
void usb_write(const char* data, size_t size);

/// The next byte from the host; -1 if there is none.
int usb_read(void);

/// From now on the controller's interrupt is pending while usb_poll() has something to do; the core
/// can sleep until then.
void usb_enable_interrupts(void);
