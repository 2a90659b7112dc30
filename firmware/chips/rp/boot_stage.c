#include "firmware/chips/rp/rp.h"

// The second stage of the RP2040's boot, for a flash that knows the usual commands, such as the
// W25Q16JV of the Pico. The boot ROM reads it by slow serial reads, checks its checksum and runs it
// in SRAM, where it lets the core execute from flash, and starts the image behind it. Source:
// RP2040 datasheet, "Flash Second Stage" and "SSI"; the flash's data sheet, "Instructions".

/// "SSI", "List of Registers".
#define SSI 0x18000000u
#define SSI_CTRLR0 RP_REGISTER(SSI, 0x00) // SPI_FRF 22:21, DFS_32 20:16, TMOD 9:8
#define SSI_CTRLR1 RP_REGISTER(SSI, 0x04)
#define SSI_SSIENR RP_REGISTER(SSI, 0x08)
#define SSI_SER RP_REGISTER(SSI, 0x10)
#define SSI_BAUDR RP_REGISTER(SSI, 0x14)
#define SSI_SR RP_REGISTER(SSI, 0x28) // BUSY 0, TFE 2
#define SSI_DR0 RP_REGISTER(SSI, 0x60)
#define SSI_RX_SAMPLE_DLY RP_REGISTER(SSI, 0xF0)
#define SSI_SPI_CTRLR0 RP_REGISTER(SSI, 0xF4)

enum {
  kWriteStatus2 = 0x31,
  kReadStatus = 0x05,
  kReadStatus2 = 0x35,
  kWriteEnable = 0x06,
  kFastReadQuadOutput = 0x6B,
};
/// Status register 1: BUSY. Status register 2: QE, pins 2 and 3 are data.
enum { kBusy = 1 << 0, kQuadEnable = 1 << 1 };

/// Sends an instruction and a byte after it. Returns the byte that came back with the latter.
static inline uint32_t flash_command(uint32_t instruction, uint32_t data) {
  SSI_DR0 = instruction;
  SSI_DR0 = data;
  while ((SSI_SR & (1u << 2 | 1u << 0)) != 1u << 2) {
  }
  (void)SSI_DR0;
  return SSI_DR0;
}

/// It is at address 0x20041F00, on the boot ROM's stack. It has no variables: nobody would set
/// them.
__attribute__((noreturn, section(".entry"))) void boot_stage(void) {
  SSI_SSIENR = 0; // Nothing else can be written while it is on.
  // clk_sys / 2, at most 66.5 MHz; read a cycle of clk_sys late, for the way there and back.
  SSI_BAUDR = 2;
  SSI_RX_SAMPLE_DLY = 1;

  // 8 bits, both directions at once.
  SSI_CTRLR0 = 7u << 16;
  SSI_SER = 1;
  SSI_SSIENR = 1;
  if ((flash_command(kReadStatus2, 0) & kQuadEnable) == 0) {
    SSI_DR0 = kWriteEnable;
    while ((SSI_SR & (1u << 2 | 1u << 0)) != 1u << 2) {
    }
    (void)SSI_DR0;
    flash_command(kWriteStatus2, kQuadEnable);
    while ((flash_command(kReadStatus, 0) & kBusy) != 0) {
    }
  }
  SSI_SSIENR = 0;

  // XIP: every read begins with its instruction, so flash answers it whatever came before. 32 bits
  // on four wires (SPI_FRF 2), instruction and address on one (TRANS_TYPE 0), 8 bits (INST_L 2) and
  // 24 (ADDR_L 6), then 8 cycles of waiting; received after what is sent (TMOD 3).
  SSI_CTRLR0 = 2u << 21 | 31u << 16 | 3u << 8;
  SSI_CTRLR1 = 0;
  SSI_SPI_CTRLR0 = (uint32_t)kFastReadQuadOutput << 24 | 8u << 11 | 2u << 8 | 6u << 2;
  SSI_SSIENR = 1;

  // The image's vector table is behind this stage.
  const uint32_t vectors = 0x10000100;
  SCB_VTOR = vectors;
  __asm volatile("ldmia %0!, {r1, r2}\n msr msp, r1\n bx r2" : : "l"(vectors) : "r1", "r2");
  __builtin_unreachable();
}
