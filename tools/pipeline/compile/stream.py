"""Lets the application hand over the rows of a method's input image, so that the image has no memory.

An instruction that writes the image becomes the method's first one. In a chain of layers it is computed band by band,
as the layers are, and its rows are the application's next ones.
"""

from typing import Any

from tools.artifacts.program.program import ProgramFile
from tools.artifacts.program.program_schema import Instruction, KernelCall, Operator
from tools.pipeline.compile.chain import STREAMED, Fusion
from tools.pipeline.compile.layout import NEXT_ROWS, kind_of
from tools.pipeline.compile.program import Shape
from tools.quiet.console import UserError

_REFUSED = f'memory = "{STREAMED}"'


def stream_rows(file: ProgramFile, plan: Any) -> None:
    """Adds the instruction that writes the input image to a method.

    Raises:
        UserError: the method's input is no image in rows of int8.
    """
    values = [plan.values[index] for index in plan.inputs or []]
    tensors = [value.val for value in values if kind_of(value) == "Tensor"]
    shapes = [Shape(each.scalar_type.name, tuple(each.sizes), tuple(each.dim_order)) for each in tensors]
    images = [each for each in shapes if each.is_channels_last and each.sizes[0] == 1 and each.dtype == "CHAR"]
    if not len(images) == len(values) == 1:
        found = ", ".join(f"{shape.dtype} {list(shape.sizes)}" for shape in shapes)
        raise UserError(
            f"program {file.path}: {_REFUSED} is for networks whose only input is an int8 image [1, channels, height, "
            f'width], and not for {found or "numbers"}; set io = "int8", or use memory = "smallest"'
        )
    plan.operators.append(Operator(*NEXT_ROWS.split(".")))
    call = KernelCall(op_index=len(plan.operators) - 1, args=list(plan.inputs))
    plan.chains[0].instructions.insert(0, Instruction(call))


def check_streamed(file: ProgramFile, fusion: Fusion) -> None:
    """Refuses a method of which no chain of layers reads the input's rows."""
    if not any(chain.first == 0 for chain in fusion.chains):
        raise UserError(
            f"program {file.path}: {_REFUSED} needs a convolution, pooling or elementwise layer that reads the image, "
            'another one that reads its result, and neither state, dynamic shapes nor an NPU; use memory = "smallest"'
        )
