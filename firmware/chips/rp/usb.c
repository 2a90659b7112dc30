#include "firmware/chips/rp/usb.h"

#include <stdbool.h>

#include "firmware/chips/rp/rp.h"

// Source: RP2040 and RP2350 datasheets, "USB"; numbers of requests and descriptors: USB 2.0
// specification, chapter 9, and CDC PSTN 1.2.

// "USB", "List of Registers".
#define USB_BASE 0x50110000u
#define USB_ADDR RP_REGISTER(USB_BASE, 0x00)
#define USB_MAIN_CTRL RP_REGISTER(USB_BASE, 0x40)    // CONTROLLER_EN 0; RP2350: PHY_ISO 2
#define USB_SIE_CTRL RP_REGISTER(USB_BASE, 0x4C)     // PULLUP_EN 16, EP0_INT_1BUF 29
#define USB_SIE_STATUS RP_REGISTER(USB_BASE, 0x50)   // SETUP_REC 17, BUS_RESET 19, write 1 clears
#define USB_BUFF_STATUS RP_REGISTER(USB_BASE, 0x58)  // IN of n: 2n, OUT: 2n + 1, write 1 clears
#define USB_EP_STALL_ARM RP_REGISTER(USB_BASE, 0x68) // EP0 IN 0, OUT 1
#define USB_MUXING RP_REGISTER(USB_BASE, 0x74)       // TO_PHY 0, SOFTCON 3
#define USB_PWR RP_REGISTER(USB_BASE, 0x78)          // VBUS_DETECT 2, its override 3
#define USB_INTE RP_REGISTER(USB_BASE, 0x90)         // BUFF_STATUS 4, BUS_RESET 12, SETUP_REQ 16

// "DPSRAM", device mode: setup packet, endpoint control, buffer control, data buffers.
#define DPRAM 0x50100000u
#define EP_CONTROL(n, out) RP_REGISTER(DPRAM, 8 * (n) + 4 * (out))
#define BUFFER_CONTROL(n, out) RP_REGISTER(DPRAM, 0x80 + 8 * (n) + 4 * (out))
enum {
  kFull = 1 << 15,
  kData1 = 1 << 13,
  kStall = 1 << 11,
  kAvailable = 1 << 10,
  kLength = 0x3FF,
};
enum { kBuffer0 = 0x100, kBufferNotify = 0x180, kBufferOut = 0x1C0, kBufferIn = 0x200 };
enum { kPacket = 64, kNotify = 1, kData = 2 };

static const uint8_t kDevice[18] = {
    18,
    1,
    0x00,
    0x02, // USB 2.0
    2,
    0,
    0,
    kPacket, // class CDC
    0x09,
    0x12,
    0x01,
    0x00, // 1209:0001, which pid.codes sets aside for tests
    0x00,
    0x01,
    1,
    2,
    3,
    1,
};

static const uint8_t kConfiguration[67] = {
    9,    2,       67,
    0,    2,       1,
    0,    0x80,    50, // two interfaces, powered by the bus, 100 mA
    9,    4,       0,
    0,    1,       2,
    2,    0,       0, // communication: abstract control model
    5,    0x24,    0,
    0x10, 0x01, // header: CDC 1.10
    5,    0x24,    1,
    0,    1, // call management: none
    4,    0x24,    2,
    2, // line coding and control line state
    5,    0x24,    6,
    0,    1, // union
    7,    5,       0x80 | kNotify,
    3,    8,       0,
    16, // interrupt
    9,    4,       1,
    0,    2,       0x0A,
    0,    0,       0, // data
    7,    5,       kData,
    2,    kPacket, 0,
    0, // bulk OUT
    7,    5,       0x80 | kData,
    2,    kPacket, 0,
    0, // bulk IN
};

/// The second is usb_product.
enum { kProductString = 2, kStringCount = 3 };

/// SET_LINE_CODING writes this and GET_LINE_CODING reads it; it has no effect.
static uint8_t line_coding[7] = {0x00, 0xC2, 0x01, 0x00, 0, 0, 8}; // 115200 8N1

static struct {
  /// The rest to be sent on endpoint 0.
  const uint8_t* data;
  size_t left;
  /// A short packet has to end it.
  bool more;
  /// Data of SET_LINE_CODING is to come.
  bool receiving;
  /// The address to set when the status stage is over; 0: none.
  uint8_t address;
  uint32_t pid;
} control;

static uint8_t scratch[64];
static bool configured;
/// A program on the host holds the port open (DTR).
static bool opened;
static uint32_t in_pid, out_pid;
static bool in_busy;

enum { kQueue = 2048, kInput = 128 };
static char queue[kQueue];
static size_t queue_head, queue_size;
static uint8_t input[kInput];
static size_t input_head, input_size;

/// Gives a buffer to the controller. "Concurrent access": AVAILABLE is set some cycles after the
/// rest, for clk_usb is slower than the core.
static void give(unsigned endpoint, bool out, uint32_t control_bits) {
  BUFFER_CONTROL(endpoint, out) = control_bits;
  __asm volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop");
  BUFFER_CONTROL(endpoint, out) = control_bits | kAvailable;
}

/// Bytes to and from the DPSRAM. It is device memory, where an unaligned word is a fault, so no
/// memcpy.
static void put(uint32_t offset, const uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    ((volatile uint8_t*)(DPRAM + offset))[i] = data[i];
  }
}

static void get(uint32_t offset, uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    data[i] = ((volatile uint8_t*)(DPRAM + offset))[i];
  }
}

static void send_control(void) {
  const size_t size = control.left < kPacket ? control.left : kPacket;
  put(kBuffer0, control.data, size);
  control.data += size;
  control.left -= size;
  control.more = size == kPacket && control.more;
  give(0, false, kFull | control.pid | (uint32_t)size);
  control.pid ^= kData1;
}

/// Answers a request with data, cut to what the host asked for.
static void answer(const void* data, size_t size, size_t wanted) {
  control.data = (const uint8_t*)data;
  control.left = size < wanted ? size : wanted;
  control.more = size < wanted;
  control.pid = kData1;
  send_control();
  // The status stage is an empty packet from the host. A buffer given any earlier would take the
  // data of a later request before that is read.
  give(0, true, kData1 | kPacket);
}

/// Ends a request without data: an empty packet to the host.
static void acknowledge(void) {
  give(0, false, kFull | kData1);
}

static void stall(void) {
  USB_EP_STALL_ARM = 3;
  BUFFER_CONTROL(0, false) = kStall;
  BUFFER_CONTROL(0, true) = kStall;
}

static void configure(bool on) {
  configured = on;
  opened = false;
  in_busy = false;
  in_pid = out_pid = 0;
  input_size = 0;
  if (!on) {
    return;
  }
  // ENABLE 31, INTERRUPT_PER_BUFF 29, type 27:26 (2 bulk, 3 interrupt), address of the buffer.
  EP_CONTROL(kNotify, false) = 1u << 31 | 1u << 29 | 3u << 26 | kBufferNotify;
  EP_CONTROL(kData, true) = 1u << 31 | 1u << 29 | 2u << 26 | kBufferOut;
  EP_CONTROL(kData, false) = 1u << 31 | 1u << 29 | 2u << 26 | kBufferIn;
  give(kData, true, kPacket);
}

/// A string descriptor: length, type, UTF-16.
static void answer_string(unsigned index, size_t wanted) {
  size_t size = 2;
  if (index == 0) {
    scratch[2] = 0x09; // US English
    scratch[3] = 0x04;
    size = 4;
  } else {
    const char* text = index == kProductString ? usb_product : index == 1 ? "Torch Fusion" : "1";
    for (; *text != '\0'; ++text) {
      scratch[size++] = (uint8_t)*text;
      scratch[size++] = 0;
    }
  }
  scratch[0] = (uint8_t)size;
  scratch[1] = 3;
  answer(scratch, size, wanted);
}

static void get_descriptor(unsigned type, unsigned index, size_t wanted) {
  if (type == 1) {
    answer(kDevice, sizeof(kDevice), wanted);
  } else if (type == 2 && index == 0) {
    answer(kConfiguration, sizeof(kConfiguration), wanted);
  } else if (type == 3 && index <= kStringCount) {
    answer_string(index, wanted);
  } else {
    stall();
  }
}

/// A request: bmRequestType and bRequest as one number (USB 2.0, 9.3; PSTN 1.2, 6.3).
static void handle_setup(void) {
  uint8_t setup[8];
  get(0, setup, sizeof(setup));
  const size_t wanted = setup[6] | (size_t)setup[7] << 8;
  control.address = 0;
  control.left = 0;
  control.more = false;
  control.receiving = false;
  BUFFER_CONTROL(0, false) = 0;
  switch (setup[0] << 8 | setup[1]) {
    case 0x8006:
      get_descriptor(setup[3], setup[2], wanted);
      break;
    case 0x0005: // SET_ADDRESS: from the end of the status stage on
      control.address = setup[2];
      acknowledge();
      break;
    case 0x0009: // SET_CONFIGURATION
      configure(setup[2] != 0);
      acknowledge();
      break;
    case 0x8008: // GET_CONFIGURATION
      scratch[0] = configured;
      answer(scratch, 1, wanted);
      break;
    case 0x8000: // GET_STATUS of device, interface, endpoint
    case 0x8100:
    case 0x8200:
      scratch[0] = scratch[1] = 0;
      answer(scratch, 2, wanted);
      break;
    case 0x0201: // CLEAR_FEATURE: endpoint halt, which also resets the data toggle
      if (setup[4] == (0x80 | kData)) {
        in_pid = 0;
      }
      acknowledge();
      break;
    case 0x010B: // SET_INTERFACE
      acknowledge();
      break;
    case 0x2120: // SET_LINE_CODING
      control.receiving = true;
      give(0, true, kData1 | kPacket);
      break;
    case 0xA121: // GET_LINE_CODING
      answer(line_coding, sizeof(line_coding), wanted);
      break;
    case 0x2122: // SET_CONTROL_LINE_STATE: bit 0 is DTR
      opened = (setup[2] & 1) != 0;
      acknowledge();
      break;
    default:
      stall();
  }
}

static void sent_control(void) {
  if (control.address != 0) {
    USB_ADDR = control.address;
    control.address = 0;
  } else if (control.left > 0 || control.more) {
    send_control();
  }
}

static void received_control(void) {
  if (control.receiving) {
    control.receiving = false;
    get(kBuffer0, line_coding, sizeof(line_coding));
    acknowledge();
  }
}

/// Takes a packet of input, if all of it has room; else the host has to wait.
static void receive(void) {
  const uint32_t state = BUFFER_CONTROL(kData, true);
  const size_t size = state & kLength;
  if (!configured || (state & kFull) == 0 || size > kInput - input_size) {
    return;
  }
  for (size_t i = 0; i < size; ++i) {
    input[(input_head + input_size++) % kInput] = ((volatile uint8_t*)(DPRAM + kBufferOut))[i];
  }
  out_pid ^= kData1;
  give(kData, true, out_pid | kPacket);
}

static void send(void) {
  if (!configured || !opened || in_busy || queue_size == 0) {
    return;
  }
  // A packet is never full: a shorter one ends the transfer, so that the host shows it at once.
  size_t size = queue_size < kPacket - 1 ? queue_size : kPacket - 1;
  for (size_t i = 0; i < size; ++i) {
    ((volatile char*)(DPRAM + kBufferIn))[i] = queue[queue_head];
    queue_head = (queue_head + 1) % kQueue;
  }
  queue_size -= size;
  in_busy = true;
  give(kData, false, kFull | in_pid | (uint32_t)size);
  in_pid ^= kData1;
}

void usb_start(void) {
  for (uint32_t offset = 0; offset < 0x200; offset += 4) {
    RP_REGISTER(DPRAM, offset) = 0;
  }
  USB_MUXING = 1u << 0 | 1u << 3;
  // The board does not connect VBUS to the controller.
  USB_PWR = 1u << 2 | 1u << 3;
  USB_MAIN_CTRL = 1u << 0;
  USB_SIE_CTRL = 1u << 29 | 1u << 16;
}

void usb_poll(void) {
  const uint32_t status = USB_SIE_STATUS;
  if (status & 1u << 19) {
    USB_SIE_STATUS = 1u << 19;
    USB_ADDR = 0;
    configure(false);
  }
  const uint32_t done = USB_BUFF_STATUS;
  if (done != 0) {
    USB_BUFF_STATUS = done;
    if (done & 1u << 0) {
      sent_control();
    }
    if (done & 1u << 1) {
      received_control();
    }
    if (done & 1u << (2 * kData)) {
      in_busy = false;
    }
  }
  if (status & 1u << 17) {
    USB_SIE_STATUS = 1u << 17;
    handle_setup();
  }
  receive();
  send();
}

void usb_write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    while (queue_size == kQueue && opened) {
      usb_poll();
    }
    if (queue_size < kQueue) {
      queue[(queue_head + queue_size++) % kQueue] = data[i];
    }
  }
  usb_poll();
}

void usb_enable_interrupts(void) {
  USB_INTE = 1u << 4 | 1u << 12 | 1u << 16;
}

int usb_read(void) {
  usb_poll();
  if (input_size == 0) {
    return -1;
  }
  const int byte = input[input_head];
  input_head = (input_head + 1) % kInput;
  --input_size;
  return byte;
}
