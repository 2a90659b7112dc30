/* void* memcpy(void* to, const void* from, size_t size): C17, 7.24.2.1. In assembly, because the compiler makes twice the size and
 * a stack frame of it, and most calls copy a few words. LDR and STR of Armv7-M and Armv8-M Mainline need no alignment. */

  .syntax unified
  .section .text.memcpy, "ax", %progbits
  .global memcpy
  .type memcpy, %function
  .thumb_func
  .balign 2
memcpy:
#ifdef __ARM_FEATURE_MVE
  push {r0, lr}
  wlstp.8 lr, r2, 2f
1:
  vldrb.8 q0, [r1], #16
  vstrb.8 q0, [r0], #16
  letp lr, 1b
2:
  pop {r0, pc}
#else
  mov ip, r0
#ifdef __ARM_FEATURE_UNALIGNED
  subs r2, #16
  blo 2f
1:
  ldr r3, [r1], #4
  str r3, [ip], #4
  ldr r3, [r1], #4
  str r3, [ip], #4
  ldr r3, [r1], #4
  str r3, [ip], #4
  ldr r3, [r1], #4
  str r3, [ip], #4
  subs r2, #16
  bhs 1b
2: /* r2: bytes left - 16 */
  adds r2, #12
  bcc 4f
3:
  ldr r3, [r1], #4
  str r3, [ip], #4
  subs r2, #4
  bhs 3b
4: /* r2: bytes left - 4 */
  adds r2, #4
  beq 6f
5:
  ldrb r3, [r1], #1
  strb r3, [ip], #1
  subs r2, #1
  bne 5b
6:
#else
  movs r3, r0
  eors r3, r1
  lsls r3, #30
  bne 4f
1: /* both are as far from a word's address */
  lsls r3, r0, #30
  beq 2f
  subs r2, #1
  blo 6f
  ldrb r3, [r1]
  strb r3, [r0]
  adds r1, #1
  adds r0, #1
  b 1b
2:
  subs r2, #4
  blo 3f
  ldmia r1!, {r3}
  stmia r0!, {r3}
  b 2b
3:
  adds r2, #4
4:
  subs r2, #1
  blo 6f
  ldrb r3, [r1]
  strb r3, [r0]
  adds r1, #1
  adds r0, #1
  b 4b
6:
  mov r0, ip
#endif
  bx lr
#endif
  .size memcpy, . - memcpy

#ifdef __ARM_FEATURE_MVE
/* void* memset(void* to, int value, size_t size), as string.c has it for other cores. */
  .section .text.memset, "ax", %progbits
  .global memset
  .type memset, %function
  .thumb_func
  .balign 2
memset:
  push {r0, lr}
  vdup.8 q0, r1
  wlstp.8 lr, r2, 2f
1:
  vstrb.8 q0, [r0], #16
  letp lr, 1b
2:
  pop {r0, pc}
  .size memset, . - memset
#endif
