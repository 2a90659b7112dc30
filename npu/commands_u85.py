"""The commands of Ethos-U85, by the numbers of ethos_u85_interface.hpp in the source distribution of ethos-u-vela."""

from npu.commands import CONV, DEPTHWISE, DMA_START, ELEMENTWISE, POOL, with_common
from npu.registers import CommandSet

__all__ = [
    "COMMANDS",
    "CONV",
    "DEPTHWISE",
    "DMA_START",
    "ELEMENTWISE",
    "POOL",
    "RESIZE",
]

RESIZE = 0x007

COMMANDS = with_common(
    CommandSet(
        operations={
            RESIZE: "RESIZE",
        },
        short_registers={
            0x108: "IFM_BROADCAST",
            0x12A: "RESIZE_X_SCALE_N_M1",
            0x12B: "RESIZE_Y_SCALE_N_M1",
            0x12C: "RESIZE_X_OFFSET",
            0x12D: "RESIZE_Y_OFFSET",
            0x12E: "WEIGHT_FORMAT",
            0x134: "DMA0_IDX_REGION",
        },
        long_registers={
            0x025: "IFM_SCALE",
            0x026: "IFM2_SCALE",
            0x027: "OP_SCALAR",
            0x033: "DMA0_SRC_STRIDE0",
            0x034: "DMA0_SRC_STRIDE1",
            0x035: "DMA0_DST_STRIDE0",
            0x036: "DMA0_DST_STRIDE1",
            0x037: "DMA0_IDX",
            0x038: "DMA0_IDX_MAX",
            0x039: "DMA0_IDX_SKIP1",
            0x092: "WEIGHT2_BASE",
            0x093: "WEIGHT2_LENGTH",
            0x094: "WEIGHT3_BASE",
            0x095: "WEIGHT3_LENGTH",
            0x096: "RESIZE_X",
            0x097: "RESIZE_Y",
        },
    )
)
