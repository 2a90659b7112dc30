#include "firmware/chips/stm32/stm32.h"

#include "firmware/board.h"

void stm32_wait_for(volatile uint32_t* reg, uint32_t mask, uint32_t value) {
  while ((*reg & mask) != value) {
  }
}

void stm32_switch_clock(uint32_t rcc, uint32_t source) {
  STM32_RCC_CFGR(rcc) = (STM32_RCC_CFGR(rcc) & ~3u) | source;
  stm32_wait_for(&STM32_RCC_CFGR(rcc), 3u << 2, source << 2);
}

void stm32_start_pll(uint32_t rcc, uint32_t pllcfgr) {
  STM32_RCC_CR(rcc) &= ~(1u << 24);
  stm32_wait_for(&STM32_RCC_CR(rcc), 1u << 25, 0);
  STM32_RCC_PLLCFGR(rcc) = pllcfgr;
  STM32_RCC_CR(rcc) |= 1u << 24;
  stm32_wait_for(&STM32_RCC_CR(rcc), 1u << 25, 1u << 25);
}

void stm32_set_range_1(uint32_t pwr) {
  STM32_PWR_CR1(pwr) = (STM32_PWR_CR1(pwr) & ~(3u << 9)) | 1u << 9;
  stm32_wait_for(&STM32_PWR_SR2(pwr), 1u << 10, 0);
}

void stm32_set_wait_states(uint32_t flash, uint32_t states) {
  STM32_FLASH_ACR(flash) = (STM32_FLASH_ACR(flash) & ~7u) | states | 1u << 8 | 1u << 9 | 1u << 10;
  stm32_wait_for(&STM32_FLASH_ACR(flash), 7, states);
}

/// Sets a field of `width` bits per pin in the register at `offset`.
static void set_field(char port, uint32_t offset, unsigned pin, unsigned width, unsigned value) {
  const unsigned per_register = 32 / width;
  volatile uint32_t* const reg =
      &STM32_REGISTER(STM32_GPIO(port), offset + 4 * (pin / per_register));
  const unsigned shift = width * (pin % per_register);
  *reg = (*reg & ~(((1u << width) - 1) << shift)) | value << shift;
}

void stm32_pin_mode(char port, unsigned pin, unsigned mode) {
  set_field(port, 0x0C, pin, 2, mode == 0); // PUPDR
  set_field(port, 0x00, pin, 2, mode);      // MODER
}

void stm32_pin_function(char port, unsigned pin, unsigned function) {
  set_field(port, 0x20, pin, 4, function); // AFR
  set_field(port, 0x08, pin, 2, 1);        // OSPEEDR
  set_field(port, 0x00, pin, 2, 2);        // MODER
}

void stm32_pin_write(char port, unsigned pin, int level) {
  STM32_REGISTER(STM32_GPIO(port), 0x18) = 1u << (level ? pin : pin + 16); // BSRR
}

int stm32_pin_read(char port, unsigned pin) {
  return (int)(STM32_REGISTER(STM32_GPIO(port), 0x10) >> pin & 1); // IDR
}

void stm32_usart_start(uint32_t usart, uint32_t divisor) {
  STM32_USART_CR1(usart) = 0;
  STM32_USART_BRR(usart) = divisor;
  STM32_USART_CR1(usart) = 1u << 0 | 1u << 2 | 1u << 3;
}

void stm32_usart_write(uint32_t usart, const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    board_waits();
    stm32_wait_for(&STM32_USART_ISR(usart), 1u << 7, 1u << 7);
    STM32_USART_TDR(usart) = (uint8_t)data[i];
  }
}

int stm32_usart_read(uint32_t usart, unsigned interrupt) {
  // An overrun blocks the receiver until it is cleared.
  STM32_USART_ICR(usart) = 1u << 3;
  while ((STM32_USART_ISR(usart) & 1u << 5) == 0) {
    board_waits();
#if BOARD_SLEEP
    STM32_USART_CR1(usart) |= 1u << 5;
    cortex_m_wait_for_interrupt(1ull << interrupt);
    STM32_USART_CR1(usart) &= ~(1u << 5);
#else
    (void)interrupt;
#endif
  }
  return (int)(STM32_USART_RDR(usart) & 0xFF);
}

void stm32_watchdog(uint32_t iwdg, uint32_t milliseconds) {
  const uint32_t ticks = milliseconds / 8;
  STM32_IWDG_KR(iwdg) = 0xCCCC;
  STM32_IWDG_KR(iwdg) = 0x5555;
  STM32_IWDG_PR(iwdg) = 6;
  STM32_IWDG_RLR(iwdg) = ticks < 0xFFF ? ticks : 0xFFF;
  stm32_wait_for(&STM32_IWDG_SR(iwdg), 7, 0);
  stm32_watchdog_feed(iwdg);
}
