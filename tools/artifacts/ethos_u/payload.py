"""The bytes that ExecuTorch's Ethos-U backend makes of a subgraph: command stream, weights, and where tensors lie.

Blocks of a name (16 bytes), a length (32 bits) and 12 bytes of zeros, followed by the data, padded to 16 bytes.
"""

import math
import struct
from dataclasses import dataclass

BACKEND = "EthosUBackend"
"""The name of that backend in programs."""

_NAMES = ("vela_bin_stream", "cmd_data", "weight_data", "scratch_size", "inputs", "outputs", "vela_end_stream")
_CONFIGURATION, _COMMAND_STREAM, _NOTHING = 1, 2, 5
_HEADER = struct.Struct("<16sI12x")
_TENSOR = struct.Struct("<6i3i")


@dataclass(frozen=True)
class TensorPlace:
    """A tensor of the border.

    Attributes:
      shape: six sizes, leading ones are 1.
      element_size: in bytes.
      offset: in the region.
      region: 1 for the arena.
    """

    shape: tuple[int, ...]
    element_size: int
    offset: int
    region: int

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.element_size


@dataclass(frozen=True)
class Payload:
    """A delegate's content.

    Attributes:
      commands: the driver's words (`COP1`, configuration) and the command stream.
      weights: region 0.
      scratch_size: bytes of region 1, inputs and outputs included.
    """

    commands: bytes
    weights: bytes
    scratch_size: int
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]


@dataclass(frozen=True)
class CommandData:
    """The words for the driver in front of a command stream, and that.

    Attributes:
      config: what the NPU's register CONFIG must hold: product, sizes of multipliers and internal memory.
      architecture: what its register ID must hold in the bits of the architecture's version.
      words: the commands, STOP included.
    """

    config: int
    architecture: int
    words: tuple[int, ...]


class PayloadError(ValueError):
    """Bytes that aren't a payload; the message says where."""


def parse(data: bytes) -> Payload:
    """Reads a payload.

    Raises:
      PayloadError: A block is missing, cut off or of another form.
    """
    blocks: dict[str, bytes] = {}
    position = 0
    for name in _NAMES:
        if position + _HEADER.size > len(data):
            raise PayloadError(f"it ends at byte {len(data)}, before block {name}")
        raw, length = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        if raw.rstrip(b"\0") != name.encode():
            raise PayloadError(f"block {raw!r} at byte {position - _HEADER.size}, where {name} belongs")
        if position + length > len(data):
            raise PayloadError(f"block {name} has {length} bytes, {len(data) - position} are left")
        blocks[name] = data[position : position + length]
        position += -(-length // 16) * 16
    if len(blocks["scratch_size"]) != 4:
        raise PayloadError(f"block scratch_size has {len(blocks['scratch_size'])} bytes, not 4")
    return Payload(
        commands=blocks["cmd_data"],
        weights=blocks["weight_data"],
        scratch_size=int.from_bytes(blocks["scratch_size"], "little"),
        inputs=_places("inputs", blocks["inputs"]),
        outputs=_places("outputs", blocks["outputs"]),
    )


def parse_commands(commands: bytes) -> CommandData:
    """Takes apart the block cmd_data: the bytes `COP1`, then words whose lowest byte says what follows.

    1 is the configuration, two words; 5 nothing; 2 the command stream, with its length in words in the upper 16 bits
    and its next bits in bits 8 to 15. The command stream begins at a multiple of 16 bytes.

    Raises:
      PayloadError: It is another format, cut off, or not aligned.
    """
    if commands[:4] != b"COP1" or len(commands) % 4:
        raise PayloadError(
            f"block cmd_data begins with {commands[:4]!r} and has {len(commands)} bytes; COP1 and words belong there"
        )
    words = struct.unpack(f"<{len(commands) // 4}I", commands)
    configuration: tuple[int, ...] = ()
    position = 1
    while position < len(words):
        action = words[position]
        position += 1
        if action & 0xFF == _CONFIGURATION:
            configuration = words[position : position + 2]
            position += 2
        elif action & 0xFF == _COMMAND_STREAM:
            length = action >> 16 | (action >> 8 & 0xFF) << 16
            if len(configuration) != 2:
                raise PayloadError("block cmd_data has no configuration before the command stream")
            if position + length > len(words):
                raise PayloadError(f"block cmd_data: {length} words of commands, {len(words) - position} are left")
            if position % 4:
                raise PayloadError(f"block cmd_data: commands begin at byte {4 * position}, not at a multiple of 16")
            return CommandData(*configuration, words[position : position + length])
        elif action & 0xFF != _NOTHING:
            raise PayloadError(f"block cmd_data: word {position - 1} is 0x{action:08x}, which no driver knows")
    raise PayloadError("block cmd_data has no command stream")


def _places(name: str, block: bytes) -> tuple[TensorPlace, ...]:
    if len(block) < 4 or len(block) != 4 + int.from_bytes(block[:4], "little") * _TENSOR.size:
        raise PayloadError(f"block {name} has {len(block)} bytes, which is no whole number of tensors")
    fields = (values for values in _TENSOR.iter_unpack(block[4:]))
    return tuple(TensorPlace(values[:6], *values[6:]) for values in fields)
