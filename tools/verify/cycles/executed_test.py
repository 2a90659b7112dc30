from tools.verify.cycles.executed import read_log

# A read of the time, for which QEMU steps back, and a loop that stops once before its second iteration.
_LOG = b"""OP:
 ld_i32 loc3,env,$0xfffffffffffffff0

 ---- 000000fc 00000000 00000000
 mov_i32 tmp5,r13

 ---- 00000100 00000000 00000000

 ---- 00000102 00000000 00000e08
Trace 0: 0x7f01 [00800408/000010fc/00000110/ff020200] main
cpu_io_recompile: rewound execution of TB to 00001102
OP:

 ---- 00000102 00000000 00000e08
Trace 0: 0x7f02 [00800408/00001102/00000110/ff038201] main
cmsdk_apb_timer_read CMSDK APB timer read: offset 0x4 data 0xffff5671 size 4
OP:

 ---- 00000104 00000000 00000000
Trace 0: 0x7f03 [00800408/00001104/00000110/ff020200] main
Trace 0: 0x7f03 [00800408/00001104/00000110/ff020200] main
Stopped execution of TB chain before 0x7f03 [00001104] main
Trace 0: 0x7f03 [00800408/00001104/00000110/ff020200] main
"""


def test_a_log_has_blocks_and_what_followed_them() -> None:
    executed = read_log(_LOG.splitlines(keepends=True))
    parts = [
        {(executed.blocks[block], executed.blocks[following]): count for (block, following), count in part.items()}
        for part in executed.parts
    ]
    read, loop = (0x1102,), (0x1104,)
    assert parts == [
        {((), (0x10FC, 0x1100, 0x1102)): 1, ((0x10FC, 0x1100), read): 1},
        {(read, loop): 1, (loop, loop): 1},
    ]
