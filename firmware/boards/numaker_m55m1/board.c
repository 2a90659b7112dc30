#include "firmware/board.h"

#include "firmware/cortex_m/core.h"

// Source: M55M1 Series Technical Reference Manual, and the descriptions of registers that Nuvoton
// publishes with its board support package; docs/registers.md says what was compared with what.
// Base addresses: "System Memory Map".
#define SYS 0x40000000u
#define CLK 0x40001000u
#define PMC 0x40002000u
#define FMC 0x40044000u
#define GPIO(port) (0x40229000u + 0x40u * ((port) - 'A'))
#define UART0 0x4024D000u

#define REGISTER(base, offset) CORTEX_M_REGISTER((base) + (offset))

/// "System Manager": REGLCTL: registers are write-protected until 59h, 16h, 88h were written; it
/// then reads as 1. Functions of pins, four to a register, a byte each.
#define SYS_REGLCTL REGISTER(SYS, 0x100)
#define SYS_GPB_MFP3 REGISTER(SYS, 0x31C)

/// "Clock Controller". SRCCTL: HIRCEN 3, HIRC48MEN 5, APLL0EN 6; STATUS: that each is stable, at
/// the same bits, and SCLKSWF 8: the system has switched to the clock that SCLKSEL names.
#define CLK_SRCCTL REGISTER(CLK, 0x00)
#define CLK_STATUS REGISTER(CLK, 0x04)
/// FBDIV 8:0 (less two), INDIV 13:9 (less one), OUTDIV 15:14, STBSEL 29:28.
#define CLK_APLL0CTL REGISTER(CLK, 0x18)
#define CLK_APLL0SEL REGISTER(CLK, 0x1C)
/// Clocks of modules, a bit for each instance.
#define CLK_GPIOCTL REGISTER(CLK, 0x244)
#define CLK_NPUCTL REGISTER(CLK, 0x28C)
#define CLK_UARTCTL REGISTER(CLK, 0x2E0)
/// SCLKSEL 2:0 (0: HIRC, 4: APLL0); UART0SEL 2:0 (1: HIRC).
#define CLK_SCLKSEL REGISTER(CLK, 0x400)
#define CLK_UARTSEL0 REGISTER(CLK, 0x460)
/// SCLKDIV 3:0; HCLK2DIV 11:8; PCLK0DIV to PCLK4DIV, four bits each; UART0DIV 3:0: each less one.
#define CLK_SCLKDIV REGISTER(CLK, 0x500)
#define CLK_HCLKDIV REGISTER(CLK, 0x508)
#define CLK_PCLKDIV REGISTER(CLK, 0x50C)
#define CLK_UARTDIV0 REGISTER(CLK, 0x53C)

/// "Power Manager". PLCTL: PLSEL 1:0 (0: the highest voltage), WRBUSY 31; PLSTS: PLCBUSY 31.
#define PMC_PLCTL REGISTER(PMC, 0x10)
#define PMC_PLSTS REGISTER(PMC, 0x14)

/// "Flash Memory Controller". CYCCTL: CYCLE 3:0.
#define FMC_CYCCTL REGISTER(FMC, 0x4C)

/// "General Purpose I/O". MODE and PUSEL: two bits a pin (MODE 0: input, 1: output; PUSEL 1:
/// pull-up).
#define GPIO_MODE(port) REGISTER(GPIO(port), 0x00)
#define GPIO_DOUT(port) REGISTER(GPIO(port), 0x08)
#define GPIO_PIN(port) REGISTER(GPIO(port), 0x10)
#define GPIO_PUSEL(port) REGISTER(GPIO(port), 0x30)

/// "UART Interface Controller". LINE: WLS 1:0 (3: eight bits). FIFOSTS: RXEMPTY 14, TXFULL 23.
/// BAUD: BRD 15:0, BAUDM0 28 and BAUDM1 29: both set, the rate is the clock's / (BRD + 2).
#define UART_DAT REGISTER(UART0, 0x00)
#define UART_LINE REGISTER(UART0, 0x0C)
#define UART_FIFOSTS REGISTER(UART0, 0x18)
#define UART_BAUD REGISTER(UART0, 0x24)

/// Cortex-M55 Technical Reference Manual (101051), "Cache maintenance operations".
#define SCB_CCR CORTEX_M_REGISTER(0xE000ED14u)
#define SCB_ICIALLU CORTEX_M_REGISTER(0xE000EF50u)

enum { kClockHz = 220000000, kHircHz = 12000000, kBaud = 115200 };

/// NuMaker-M55M1 User Manual: LEDG on PD5 and BTN0 on PI11 pull their pins low.
enum { kLedPin = 5, kButtonPin = 11 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

static void wait_for(volatile uint32_t* reg, uint32_t mask, uint32_t value) {
  while ((*reg & mask) != value) {
  }
}

static void unlock(void) {
  do {
    SYS_REGLCTL = 0x59;
    SYS_REGLCTL = 0x16;
    SYS_REGLCTL = 0x88;
  } while ((SYS_REGLCTL & 1) == 0);
}

/// 220 MHz from 12 MHz: / 3 * 2 * 55 = 440 MHz in APLL0, / 2 at its output.
static void start_clock(void) {
  // Editions of the register descriptions differ in the meaning of source 2 of APLL0: the
  // oscillator of 12 MHz, or that of 48 MHz, divided by 4. With both on it is the same.
  CLK_SRCCTL |= 1u << 3 | 1u << 5;
  wait_for(&CLK_STATUS, 1u << 3 | 1u << 5, 1u << 3 | 1u << 5);
  // A debugger may have left the system on APLL0, which then cannot be changed.
  CLK_SCLKSEL = 0;
  wait_for(&CLK_STATUS, 1u << 8, 1u << 8);
  CLK_SRCCTL &= ~(1u << 6);

  // 220 MHz need the highest voltage and eight cycles of flash, both before the clock rises.
  wait_for(&PMC_PLCTL, 1u << 31, 0);
  PMC_PLCTL = 0;
  wait_for(&PMC_PLCTL, 1u << 31, 0);
  wait_for(&PMC_PLSTS, 1u << 31, 0);
  FMC_CYCCTL = 8;

  CLK_APLL0SEL = 2;
  CLK_APLL0CTL = 1u << 28 | 1u << 14 | (3u - 1) << 9 | (55u - 2);
  CLK_SRCCTL |= 1u << 6;
  wait_for(&CLK_STATUS, 1u << 6, 1u << 6);
  // The dividers first: peripherals stand half of the core's clock.
  CLK_SCLKDIV = 0;
  CLK_HCLKDIV = 1u << 8;
  CLK_PCLKDIV = 0x11111;
  CLK_SCLKSEL = 4;
  wait_for(&CLK_STATUS, 1u << 8, 1u << 8);
}

static void start_pins(void) {
  GPIO_DOUT('D') |= 1u << kLedPin;
  GPIO_MODE('D') = (GPIO_MODE('D') & ~(3u << 2 * kLedPin)) | 1u << 2 * kLedPin;
  GPIO_MODE('I') &= ~(3u << 2 * kButtonPin);
  GPIO_PUSEL('I') = (GPIO_PUSEL('I') & ~(3u << 2 * kButtonPin)) | 1u << 2 * kButtonPin;
}

#if ET_LOG_ENABLED

/// UART0 on PB12 and PB13, function 6, 115200 8N1, from the oscillator of 12 MHz: 115385 baud.
static void start_console(void) {
  SYS_GPB_MFP3 = (SYS_GPB_MFP3 & ~0x1F1Fu) | 6u << 8 | 6u;
  UART_LINE = 3;
  UART_BAUD = 3u << 28 | ((kHircHz + kBaud / 2) / kBaud - 2);
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  unlock();
  start_clock();
  CLK_GPIOCTL |= 1u << ('B' - 'A') | 1u << ('D' - 'A') | 1u << ('I' - 'A');
  CLK_NPUCTL |= 1;
#if ET_LOG_ENABLED
  CLK_UARTSEL0 = (CLK_UARTSEL0 & ~7u) | 1u;
  CLK_UARTDIV0 &= ~0xFu;
  CLK_UARTCTL |= 1;
#endif
  SYS_REGLCTL = 0;

  // Turns on the instruction cache alone: the core reads what the NPU writes from memory.
  __asm volatile("dsb\n isb" ::: "memory");
  SCB_ICIALLU = 0;
  __asm volatile("dsb\n isb" ::: "memory");
  SCB_CCR |= 1u << 17;
  __asm volatile("dsb\n isb" ::: "memory");

  cortex_m_start_cycle_counter();
  start_pins();
#if ET_LOG_ENABLED
  start_console();
#endif
}

uint32_t board_ticks(void) {
  return cortex_m_cycles();
}

void board_console_write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    while ((UART_FIFOSTS & 1u << 23) != 0) {
      board_waits();
    }
    UART_DAT = (uint8_t)data[i];
  }
}

int board_console_read(void) {
  while ((UART_FIFOSTS & 1u << 14) != 0) {
    board_waits();
  }
  return (int)(UART_DAT & 0xFF);
}

void board_led(bool on) {
  GPIO_DOUT('D') = (GPIO_DOUT('D') & ~(1u << kLedPin)) | (uint32_t)!on << kLedPin;
}

bool board_button(void) {
  return (GPIO_PIN('I') >> kButtonPin & 1) == 0;
}
