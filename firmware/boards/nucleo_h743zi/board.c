#include "firmware/board.h"

#include "firmware/chips/stm32/stm32.h"
#include "firmware/cortex_m/caches.h"

// Source: reference manual RM0433, data sheet DS12110 and the board's user manual UM2407, named by
// section title. Base addresses: RM0433, "Memory and bus architecture", "Memory map and register
// boundary addresses".
#define FLASH 0x52002000u
#define RCC 0x58024400u
#define PWR 0x58024800u
#define SYSCFG 0x58000400u
#define USART3 0x40004800u
#define IWDG1 0x58004800u

/// "RCC registers": CR: HSEON 16, HSERDY 17, HSEBYP 18, PLL1ON 24, PLL1RDY 25; CFGR: SW 2:0, SWS
/// 5:3 (0: HSI, 3: PLL1).
#define RCC_CR STM32_REGISTER(RCC, 0x00)
#define RCC_CFGR STM32_REGISTER(RCC, 0x10)
/// HPRE 3:0, D1PPRE 6:4, D1CPRE 11:8; D2PPRE1 6:4, D2PPRE2 10:8; D3PPRE 6:4.
#define RCC_D1CFGR STM32_REGISTER(RCC, 0x18)
#define RCC_D2CFGR STM32_REGISTER(RCC, 0x1C)
#define RCC_D3CFGR STM32_REGISTER(RCC, 0x20)
/// PLLSRC 1:0 (2: HSE), DIVM1 9:4.
#define RCC_PLLCKSELR STM32_REGISTER(RCC, 0x28)
/// PLL1VCOSEL 1 (0: wide), PLL1RGE 3:2 (2: 4 to 8 MHz), DIVP1EN 16.
#define RCC_PLLCFGR STM32_REGISTER(RCC, 0x2C)
/// DIVN1 8:0, DIVP1 15:9, each less one.
#define RCC_PLL1DIVR STM32_REGISTER(RCC, 0x30)
#define RCC_AHB4ENR STM32_REGISTER(RCC, 0xE0)
#define RCC_APB1LENR STM32_REGISTER(RCC, 0xE8)
#define RCC_APB4ENR STM32_REGISTER(RCC, 0xF4)

/// "PWR registers": CR3: BYPASS 0, LDOEN 1, SCUEN 2; CSR1: ACTVOSRDY 13; D3CR: VOSRDY 13, VOS 15:14
/// (3: scale 1). "SYSCFG": PWRCR: ODEN 0, which makes scale 1 scale 0.
#define PWR_CSR1 STM32_REGISTER(PWR, 0x04)
#define PWR_CR3 STM32_REGISTER(PWR, 0x0C)
#define PWR_D3CR STM32_REGISTER(PWR, 0x18)
#define SYSCFG_PWRCR STM32_REGISTER(SYSCFG, 0x2C)

/// "Embedded flash memory (FLASH)": LATENCY 3:0, WRHIGHFREQ 5:4.
#define FLASH_ACR STM32_REGISTER(FLASH, 0x00)

/// DDI 0489, DWT: its registers take what software writes only after this key.
#define DWT_LAR CORTEX_M_REGISTER(0xE0001FB0u)

enum { kClockHz = 480000000, kBaud = 115200, kUsart3Interrupt = 39, kPll1 = 3 };

/// UM2407, "LEDs", "Push-buttons": LD1 on PB0; B1 on PC13, which it pulls up against a resistor.
enum { kLedPin = 0, kButtonPin = 13 };

const BoardClock board_clock = {kClockHz, 1, 1, "cycles"};

/// 480 MHz needs the highest voltage: PWR, "Power supply supervision", and "Voltage scaling", "VOS0
/// activation sequence". Only chips of revision V and later have scale 0, those of revision Y do
/// not.
static void raise_voltage(void) {
  // The supply, the LDO, is chosen first, and once. Until then the voltage cannot be changed.
  PWR_CR3 = (PWR_CR3 & ~7u) | 1u << 1;
  stm32_wait_for(&PWR_CSR1, 1u << 13, 1u << 13);
  PWR_D3CR |= 3u << 14;
  stm32_wait_for(&PWR_D3CR, 1u << 13, 1u << 13);
  RCC_APB4ENR |= 1u << 1; // SYSCFGEN
  (void)RCC_APB4ENR;
  SYSCFG_PWRCR |= 1;
  stm32_wait_for(&PWR_D3CR, 1u << 13, 1u << 13);
}

/// 480 MHz from the ST-LINK's 8 MHz: / 2 * 240 = 960 MHz in PLL1, / 2 at its output P. The buses
/// run at 240 MHz, peripherals at 120.
static void start_clock(void) {
  // A debugger may have left the system on the PLL, which then cannot be changed.
  RCC_CFGR &= ~7u;
  stm32_wait_for(&RCC_CFGR, 7u << 3, 0);
  RCC_CR &= ~(1u << 24);
  stm32_wait_for(&RCC_CR, 1u << 25, 0);

  raise_voltage();
  // FLASH, "FLASH recommended number of wait states and programming delay": in scale 0 up to 240
  // MHz of the AXI bus 4 wait states, set before the clock rises.
  FLASH_ACR = 2u << 4 | 4u;
  stm32_wait_for(&FLASH_ACR, 0x3F, 2u << 4 | 4u);

  RCC_CR |= 1u << 18; // the ST-LINK's clock is no crystal
  RCC_CR |= 1u << 16;
  stm32_wait_for(&RCC_CR, 1u << 17, 1u << 17);
  RCC_PLLCKSELR = (RCC_PLLCKSELR & ~0x3F3u) | 2u << 4 | 2u;
  RCC_PLLCFGR = (RCC_PLLCFGR & ~0xFu) | 2u << 2 | 1u << 16;
  RCC_PLL1DIVR = (240u - 1) | (2u - 1) << 9 | (2u - 1) << 16 | (2u - 1) << 24;
  RCC_CR |= 1u << 24;
  stm32_wait_for(&RCC_CR, 1u << 25, 1u << 25);

  // The dividers first: the buses stand half of the core's clock.
  RCC_D1CFGR = 0u << 8 | 4u << 4 | 8u;
  RCC_D2CFGR = 4u << 8 | 4u << 4;
  RCC_D3CFGR = 4u << 4;
  RCC_CFGR |= kPll1;
  stm32_wait_for(&RCC_CFGR, 7u << 3, (uint32_t)kPll1 << 3);
}

static void start_pins(void) {
  RCC_AHB4ENR |= 1u << ('B' - 'A') | 1u << ('C' - 'A') | 1u << ('D' - 'A');
  (void)RCC_AHB4ENR;
  stm32_pin_mode('B', kLedPin, 1);
  STM32_REGISTER(STM32_GPIO('C'), 0x00) &= ~(3u << 2 * kButtonPin); // MODER: input
}

#if ET_LOG_ENABLED

/// USART3 on PD8 and PD9, alternate function 7 (DS12110, "Alternate functions"; UM2407, "USART
/// communication"), 115200 8N1. Its clock after reset is APB1's 120 MHz, which makes 115163 baud.
static void start_console(void) {
  RCC_APB1LENR |= 1u << 18;
  (void)RCC_APB1LENR;
  stm32_pin_function('D', 8, 7);
  stm32_pin_function('D', 9, 7);
  stm32_usart_start(USART3, (kClockHz / 4 + kBaud / 2) / kBaud);
}

#endif // ET_LOG_ENABLED

void board_init(void) {
  start_clock();
  cortex_m_start_caches();
  DWT_LAR = 0xC5ACCE55u;
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
  stm32_usart_write(USART3, data, size);
}

int board_console_read(void) {
  return stm32_usart_read(USART3, kUsart3Interrupt);
}

void board_led(bool on) {
  stm32_pin_write('B', kLedPin, on);
}

bool board_button(void) {
  return stm32_pin_read('C', kButtonPin) != 0;
}

void board_watchdog(uint32_t milliseconds) {
  stm32_watchdog(IWDG1, milliseconds);
}

void board_watchdog_feed(void) {
  stm32_watchdog_feed(IWDG1);
}
