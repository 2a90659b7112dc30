#pragma once

#include <stdint.h>

/// Arm semihosting (Semihosting for AArch32 and AArch64, ARM 100863): operations by number,
/// executed by the emulator.
enum {
  kSysOpen = 0x01,
  kSysClose = 0x02,
  kSysWrite = 0x05,
  kSysRead = 0x06,
  kSysFileLength = 0x0C,
  kSysGetCommandLine = 0x15,
  kSysExitExtended = 0x20,
};

/// Modes of kSysOpen, after fopen's "rb" and "wb".
enum { kOpenRead = 1, kOpenWrite = 5 };

/// ADP_Stopped_ApplicationExit, the reason of an ordinary kSysExitExtended.
enum { kStoppedApplicationExit = 0x20026 };

/// Executes an operation. `argument` points to its parameter block. Returns the operation's result.
static inline int32_t semihosting_call(int32_t operation, const void* argument) {
  register int32_t r0 __asm("r0") = operation;
  register const void* r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
