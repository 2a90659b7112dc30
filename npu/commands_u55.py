"""The commands of Ethos-U55 and U65, by the numbers of `ethosu.vela.ethos_u55_regs` in the wheel of ethos-u-vela."""

from npu.commands import CONV, DEPTHWISE, DMA_START, ELEMENTWISE, POOL, with_common
from npu.registers import CommandSet, numbered

__all__ = ["COMMANDS", "CONV", "DEPTHWISE", "DMA_START", "ELEMENTWISE", "POOL"]

COMMANDS = with_common(
    CommandSet(
        operations={},
        short_registers=numbered(
            "0x10D IFM_IB_END 0x123 PARALLEL_MODE 0x12D AB_START 0x181 IFM2_SCALAR 0x18D IFM2_IB_START"
        ),
        long_registers=numbered(
            "0x025 OPA_SCALE OPB_SCALE 0x033 DMA0_SKIP0 DMA0_SKIP1 0x092 SCALE1_BASE SCALE1_LENGTH"
        ),
    )
)
