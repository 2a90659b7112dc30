#pragma once

#include <stdint.h>

/// A board that QEMU emulates after one of Arm's MPS2 or MPS3: its console is a UART of the
/// Cortex-M System Design Kit. mps2_board.c implements firmware/board.h for it, but the counter.
typedef struct {
  /// Base address of UART 0, and its clock.
  uint32_t uart;
  uint32_t uart_clock_hz;
} Mps2Board;

/// Each board defines it.
extern const Mps2Board mps2_board;

/// Each board's: starts what board_ticks() reads.
void mps2_start_counter(void);
