#pragma once

#include <stddef.h>
#include <stdint.h>

#include "firmware/cortex_m/core.h"

/// Registers that STM32L4 and STM32WB have in common, at bases that differ; of the STM32H7 the
/// ports and serial ports are the same, too. Source: reference manuals RM0351 (STM32L47x), RM0434
/// (STM32WB55) and RM0433 (STM32H743), named by chapter and section title, because numbers change
/// between revisions.

#define STM32_REGISTER(base, offset) CORTEX_M_REGISTER((base) + (offset))

/// "Reset and clock control (RCC)", "RCC registers".
/// CR: MSION 0, MSIRDY 1, HSEON 16, HSERDY 17, PLLON 24, PLLRDY 25.
#define STM32_RCC_CR(base) STM32_REGISTER(base, 0x00)
/// CFGR: SW 1:0, SWS 3:2 (0: MSI, 1: HSI16, 2: HSE, 3: PLL).
#define STM32_RCC_CFGR(base) STM32_REGISTER(base, 0x08)
/// PLLCFGR: PLLSRC 1:0 (1: MSI, 2: HSI16, 3: HSE), PLLM 6:4 (divider - 1), PLLN 14:8; the output R
/// differs between the families.
#define STM32_RCC_PLLCFGR(base) STM32_REGISTER(base, 0x0C)
#define STM32_RCC_AHB2ENR(base) STM32_REGISTER(base, 0x4C)
#define STM32_RCC_APB1ENR1(base) STM32_REGISTER(base, 0x58)
#define STM32_RCC_APB2ENR(base) STM32_REGISTER(base, 0x60)
enum { kStm32Msi = 0, kStm32Hse = 2, kStm32Pll = 3 };

/// "Power control (PWR)". CR1: VOS 10:9 (1: range 1); SR2: VOSF 10: the regulator has not reached
/// the range yet.
#define STM32_PWR_CR1(base) STM32_REGISTER(base, 0x00)
#define STM32_PWR_SR2(base) STM32_REGISTER(base, 0x14)

/// "Embedded flash memory (FLASH)". ACR: LATENCY 2:0, PRFTEN 8, ICEN 9, DCEN 10.
#define STM32_FLASH_ACR(base) STM32_REGISTER(base, 0x00)

/// "General-purpose I/Os (GPIO)": two bits per pin in MODER (0: input, 1: output, 2: alternate
/// function, 3: analog), OSPEEDR and PUPDR (1: pull-up); four in AFR.
#ifndef STM32_GPIO_BASE
#define STM32_GPIO_BASE 0x48000000u
#endif
#define STM32_GPIO(port) (STM32_GPIO_BASE + 0x400u * ((port) - 'A'))

/// "Universal synchronous/asynchronous receiver transmitter (USART/UART)".
/// CR1: UE 0, RE 2, TE 3, RXNEIE 5; ISR: ORE 3, RXNE 5, TXE 7.
#define STM32_USART_CR1(base) STM32_REGISTER(base, 0x00)
#define STM32_USART_BRR(base) STM32_REGISTER(base, 0x0C)
#define STM32_USART_ISR(base) STM32_REGISTER(base, 0x1C)
#define STM32_USART_ICR(base) STM32_REGISTER(base, 0x20)
#define STM32_USART_RDR(base) STM32_REGISTER(base, 0x24)
#define STM32_USART_TDR(base) STM32_REGISTER(base, 0x28)

/// "Independent watchdog (IWDG)": KR starts (0xCCCC), feeds (0xAAAA) and unlocks (0x5555); PR 6:
/// LSI / 256, RLR: ticks. LSI is 32 kHz: 8 ms a tick.
#define STM32_IWDG_KR(base) STM32_REGISTER(base, 0x00)
#define STM32_IWDG_PR(base) STM32_REGISTER(base, 0x04)
#define STM32_IWDG_RLR(base) STM32_REGISTER(base, 0x08)
#define STM32_IWDG_SR(base) STM32_REGISTER(base, 0x0C)

/// Waits until the bits of `mask` have `value`.
void stm32_wait_for(volatile uint32_t* reg, uint32_t mask, uint32_t value);

/// Makes clock `source` (kStm32...) the system's and waits until it is.
void stm32_switch_clock(uint32_t rcc, uint32_t source);

/// Turns the PLL off, sets PLLCFGR and turns the PLL on; it may not be the system clock meanwhile
/// (RCC, "PLLs": PLLCFGR is only taken while the PLL is off). Its source must be ready.
void stm32_start_pll(uint32_t rcc, uint32_t pllcfgr);

/// Sets the voltage range to 1 and waits for the regulator (PWR, "Dynamic voltage scaling
/// management").
void stm32_set_range_1(uint32_t pwr);

/// Sets the wait states of flash, with prefetch and both caches on (FLASH, "Read access latency").
void stm32_set_wait_states(uint32_t flash, uint32_t states);

/// Sets the mode of a pin of a port ('A' to 'H') whose clock is on: 0 input with pull-up, 1 output.
void stm32_pin_mode(char port, unsigned pin, unsigned mode);

/// Switches a pin to an alternate function, at medium speed.
void stm32_pin_function(char port, unsigned pin, unsigned function);

/// Drives an output pin.
void stm32_pin_write(char port, unsigned pin, int level);

/// Returns the level at a pin.
int stm32_pin_read(char port, unsigned pin);

/// Starts a USART whose clock is on: 8 data bits, no parity. `divisor`: its kernel clock / baud.
void stm32_usart_start(uint32_t usart, uint32_t divisor);

/// Sends bytes; returns when the last one is in the transmitter.
void stm32_usart_write(uint32_t usart, const char* data, size_t size);

/// Waits for a byte; with --//firmware:sleep=on the core sleeps meanwhile, woken by the USART's
/// interrupt number `interrupt`, which is never taken.
int stm32_usart_read(uint32_t usart, unsigned interrupt);

/// Starts the watchdog, or feeds it: board_watchdog().
void stm32_watchdog(uint32_t iwdg, uint32_t milliseconds);

/// Feeds the watchdog.
static inline void stm32_watchdog_feed(uint32_t iwdg) {
  STM32_IWDG_KR(iwdg) = 0xAAAA;
}
