"""The commands of Ethos-U85, by the numbers of ethos_u85_interface.hpp in the source distribution of ethos-u-vela."""

from npu.commands import CONV, DEPTHWISE, DMA_START, ELEMENTWISE, POOL, with_common
from npu.registers import CommandSet, numbered

__all__ = ["COMMANDS", "CONV", "DEPTHWISE", "DMA_START", "ELEMENTWISE", "POOL", "RESIZE"]

RESIZE = 0x007

COMMANDS = with_common(
    CommandSet(
        operations={RESIZE: "RESIZE"},
        short_registers=numbered(
            "0x108 IFM_BROADCAST 0x12A RESIZE_X_SCALE_N_M1 RESIZE_Y_SCALE_N_M1 RESIZE_X_OFFSET RESIZE_Y_OFFSET "
            "WEIGHT_FORMAT 0x134 DMA0_IDX_REGION"
        ),
        long_registers=numbered(
            "0x025 IFM_SCALE IFM2_SCALE OP_SCALAR 0x033 DMA0_SRC_STRIDE0 DMA0_SRC_STRIDE1 DMA0_DST_STRIDE0 "
            "DMA0_DST_STRIDE1 DMA0_IDX DMA0_IDX_MAX DMA0_IDX_SKIP1 0x092 WEIGHT2_BASE WEIGHT2_LENGTH WEIGHT3_BASE "
            "WEIGHT3_LENGTH RESIZE_X RESIZE_Y"
        ),
    )
)
