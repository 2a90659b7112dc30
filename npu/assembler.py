"""Command streams and weight streams for tests, written by hand."""

from collections.abc import Iterable

from npu import commands_u55
from npu.registers import CommandSet


def assemble(*steps: dict[str, int] | tuple[str, int], commands: CommandSet = commands_u55.COMMANDS) -> list[int]:
    """Returns the words of a stream: registers by name with their values, operations as (name, parameter), and STOP.

    Values of long registers have up to 48 bits.
    """
    short = {name: number for number, name in commands.short_registers.items()}
    long = {name: number for number, name in commands.long_registers.items()}
    operations = {name: number for number, name in commands.operations.items()}
    words = []
    for step in steps:
        if isinstance(step, tuple):
            words.append(operations[step[0]] | step[1] << 16)
            continue
        for name, value in step.items():
            if name in short:
                words.append(short[name] | (value & 0xFFFF) << 16)
            else:
                words += [long[name] | 1 << 14 | (value >> 32 & 0xFFFF) << 16, value & 0xFFFFFFFF]
    return [*words, operations["STOP"]]


def feature_map(prefix: str, shape: tuple[int, int, int], address: int, size: int) -> dict[str, int]:
    """Returns the registers of a dense tensor [height, width, depth] of elements of `size` bytes, in one tile."""
    height, width, depth = shape
    registers = {
        f"{prefix}_REGION": 1,
        f"{prefix}_BASE0": address,
        f"{prefix}_BASE1": 0,
        f"{prefix}_BASE2": 0,
        f"{prefix}_BASE3": 0,
        f"{prefix}_STRIDE_C": size,
        f"{prefix}_STRIDE_X": depth * size,
        f"{prefix}_STRIDE_Y": width * depth * size,
        f"{prefix}_HEIGHT0_M1": height - 1,
        f"{prefix}_HEIGHT1_M1": height - 1,
        f"{prefix}_WIDTH0_M1": width - 1,
        f"{prefix}_ZERO_POINT": 0,
    }
    if prefix != "IFM2":
        registers[f"{prefix}_DEPTH_M1"] = depth - 1
    if prefix == "OFM":
        registers |= {"OFM_HEIGHT_M1": height - 1, "OFM_WIDTH_M1": width - 1}
    return registers


class BitWriter:
    """Bits, least significant first."""

    def __init__(self) -> None:
        self._value = 0
        self._length = 0

    def put(self, value: int, count: int) -> None:
        self._value |= int(value) << self._length
        self._length += count

    def align(self) -> None:
        self._length = -(-self._length // 8) * 8

    def bytes(self) -> bytes:
        return self._value.to_bytes(-(-self._length // 8), "little")


def encode_uncompressed(weights: Iterable[int]) -> bytes:
    """Returns a weight stream of one slice that holds the weights, at most 32768 of them, as they are."""
    values = [abs(int(weight)) << 1 | (weight < 0) for weight in weights]
    bits = BitWriter()
    bits.put(6, 3)  # no zero runs
    bits.put(len(values) - 1, 15)
    bits.put(7, 3)  # uncompressed
    bits.put(0, 1)
    bits.put(1, 1)  # a palette, which is empty
    bits.put(0, 10)
    bits.put(7, 3)  # weights of 9 bits
    for value in values:
        bits.put(value, 9)
    bits.put(7, 3)  # the end
    bits.align()
    return bits.bytes() + b"\xff" * (-len(bits.bytes()) % 16)
