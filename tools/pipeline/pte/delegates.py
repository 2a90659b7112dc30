"""Checks delegates for an Ethos-U in a program that was exported elsewhere.

They are checked against the board's NPU, and executed on the model of it, which gives outputs to compare with.
"""

from collections.abc import Sequence
from typing import Any

import numpy
import numpy.typing as npt

from npu import ethos_u55, ethos_u85
from npu.device import Device, engine_of
from npu.fault import NpuFault
from npu.memory import Segments
from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import BACKEND, Payload, PayloadError, parse, parse_commands
from tools.artifacts.program.program import ProgramFile, Tensor, calls_of
from tools.artifacts.program.program_schema import DelegateCall
from tools.pipeline.export.backends.ethos_u.addresses import execute_checked
from tools.quiet.console import UserError

# The bits that firmware/ethos_u/driver.cpp compares: product, internal memory and multipliers in CONFIG, and the
# version of the architecture in ID.
_CONFIG, _ARCHITECTURE = 0xF000FF0F, 0xFFFF0000
_ID = 0


class Delegates:
    """The delegates of a method for the board's NPU.

    Args:
        file: the program.
        plan: the method.
        npu: the board's NPU.

    Attributes:
        notes: unchecked aspects, one sentence each.

    Raises:
        UserError: there is none, or one is corrupted, is for another NPU or memory mode, needs more memory than the
          board's NPU has, or accesses addresses beyond its memory.
    """

    def __init__(self, file: ProgramFile, plan: Any, npu: Npu) -> None:
        self._path = file.path
        self._npu = npu
        self.notes: list[str] = []
        self._payloads: dict[int, Payload] = {}
        self._contents = {
            index: file.delegate(delegate.processed)
            for index, delegate in enumerate(plan.delegates)
            if delegate.id == BACKEND
        }
        if not self._contents:
            raise UserError(
                f'{file.path} has no delegate of {BACKEND}, which backend = "ethos_u" is for; leave backend out'
            )
        for index, content in self._contents.items():
            try:
                payload = self._payloads[index] = parse(content)
                self._check(index, payload)
            except PayloadError as error:
                raise UserError(f"{file.path}: delegate {index} is corrupted: {error}; export it again") from error
            for call in _calls(plan, index):
                self._check_places(index, plan, call, payload)
            _, note = execute_checked(content, [], npu, index, file.path)
            self.notes += [note] if note else []

    def output_count(self, index: int) -> int:
        """Returns the number of a delegate's arguments that it writes to, which are the last ones.

        Raises:
            UserError: the delegate is not for the NPU.
        """
        self._check_backend(index)
        return len(self._payloads[index].outputs)

    def run(self, index: int, inputs: Sequence[npt.NDArray[numpy.uint8]]) -> list[bytes]:
        """Executes a delegate on the model of the NPU.

        Args:
            index: the delegate's index in the method.
            inputs: the bytes of the inputs.

        Returns:
            the bytes of its outputs.

        Raises:
            UserError: the delegate is not for the NPU, or the model can't execute it.
        """
        self._check_backend(index)
        given = [data.tobytes() for data in inputs]
        run, note = execute_checked(self._contents[index], given, self._npu, index, self._path)
        if run is None:
            raise UserError(f'{self._path}: {note}; give examples = "NAME.npz" with outputs')
        return run.outputs

    def _check_backend(self, index: int) -> None:
        if index not in self._contents:
            raise UserError(
                f"{self._path}: delegate {index} is of another backend than {BACKEND}, which is not computed here; "
                'give examples = "NAME.npz" with outputs'
            )

    def _check(self, index: int, payload: Payload) -> None:
        """Raises UserError for a payload for another NPU or memory mode, or for more memory than the board has."""
        commands = parse_commands(payload.commands)
        config, _ = engine_of(self._npu.accelerator, Segments())
        architecture = Device(self._npu.accelerator, Segments()).read(_ID)
        if (commands.config ^ config) & _CONFIG:
            raise UserError(
                f"{self._path}: delegate {index} is for {_accelerator(commands.config)}, and the board has "
                f"{self._npu.accelerator}; export the program for that, or choose another board"
            )
        if (commands.architecture ^ architecture) & _ARCHITECTURE:
            raise UserError(
                f"{self._path}: delegate {index} is for version 0x{commands.architecture:08x} of the architecture, and "
                f"the {self._npu.accelerator} of the board has 0x{architecture:08x}; export it with the Vela of this "
                "release (docs/ethos_u.md)"
            )
        if payload.scratch_size > self._npu.arena_bytes:
            raise UserError(
                f"{self._path}: delegate {index} works in {payload.scratch_size:,} bytes, and arena_bytes of the "
                f"board's NPU are {self._npu.arena_bytes:,}"
            )
        if not self._npu.cache_bytes and _needs_cache(payload, self._npu.accelerator):
            raise UserError(
                f"{self._path}: delegate {index} was compiled with a memory mode that gives the NPU a fast memory of "
                f"its own (Dedicated_Sram), and the board's NPU has memory_mode '{self._npu.memory_mode}'; export it "
                'with memory_mode = "Shared_Sram" or "Sram_Only" of EthosUCompileSpec'
            )

    def _check_places(self, index: int, plan: Any, call: DelegateCall, payload: Payload) -> None:
        """Raises UserError for tensors whose layout differs from the NPU's."""
        places = (*payload.inputs, *payload.outputs)
        tensors = [plan.values[value].val for value in call.args or []]
        if len(tensors) != len(places) or not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise UserError(
                f"{self._path}: delegate {index} has {len(payload.inputs)} inputs and {len(payload.outputs)} outputs, "
                f"and gets {len(tensors)} arguments: it is corrupted"
            )
        for number, (tensor, place) in enumerate(zip(tensors, places, strict=True)):
            sizes = [(tensor.sizes or ())[dim] for dim in tensor.dim_order or ()]
            if _significant(sizes) != _significant(place.shape):
                raise UserError(
                    f"{self._path}: argument {number} of delegate {index} has the sizes {sizes} as it lies in memory, "
                    f"and the NPU's are {list(place.shape)}. Older releases of ExecuTorch reorder it when the program "
                    "runs; export it with the release that docs/ethos_u.md names"
                )


def _calls(plan: Any, index: int) -> list[DelegateCall]:
    return [call for call in calls_of(plan) if isinstance(call, DelegateCall) and call.delegate_index == index]


def _significant(sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if size != 1]


def _accelerator(config: int) -> str:
    """Returns the configuration that commands are for, such as `ethos-u55-128`."""
    for name in (*ethos_u55.CONFIGURATIONS, *ethos_u85.CONFIGURATIONS):
        if (engine_of(name, Segments())[0] ^ config) & _CONFIG == 0:
            return name
    return f"an NPU whose CONFIG is 0x{config:08x}, which is none of Ethos-U55, U65 and U85"


def _needs_cache(payload: Payload, accelerator: str) -> bool:
    """Whether a command reads or writes region 2, the NPU's own memory."""
    weights, scratch = 1 << 44, 2 << 44
    memory = Segments()
    memory.add(weights, numpy.frombuffer(payload.weights, numpy.uint8), writable=False)
    memory.add(scratch, numpy.zeros(payload.scratch_size, numpy.uint8), writable=True)
    try:
        engine_of(accelerator, memory)[1].run(parse_commands(payload.commands).words, {0: weights, 1: scratch})
    except NpuFault as fault:
        return "region 2 has no base address" in str(fault)
    return False
