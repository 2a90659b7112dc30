"""A functional model of Ethos-U85: executes a command stream on memory, without a notion of time."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu import commands_u85 as commands
from npu import weight_order_u85 as weight_order
from npu.arithmetic import Integers, Rounding, count_leading_zeros, interpolate, looked_up, scale, wrap
from npu.engine import Engine, FeatureMap, Windows, check_size, decoded, divide
from npu.fault import NpuFault
from npu.memory import Memory
from npu.registers import numbered


@dataclass(frozen=True)
class Configuration:
    """A size of the NPU.

    Attributes:
      microblocks: output channels that are worked on at once, by the microblock's number in ACC_FORMAT.
      decoders: of weights.
      sram_ports, external_ports: log2 of their numbers.
    """

    name: str
    macs: int
    decoders: int
    microblocks: dict[int, int]
    sram_ports: int
    external_ports: int

    @property
    def config(self) -> int:
        """Returns the register CONFIG: log2 of multipliers and decoders, version of the stream, ports, product."""
        decoders = int(math.log2(self.decoders))
        ports = self.sram_ports << 8 | self.external_ports << 10
        return int(math.log2(self.macs)) | 1 << 4 | ports | decoders << 12 | 2 << 28


# Numbers of microblocks: height x width.
_1X1, _1X2, _1X4, _2X2, _2X4, _4X4 = range(6)

CONFIGURATIONS = {
    configuration.name: configuration
    for configuration in (
        Configuration("ethos-u85-128", 128, 1, {_1X2: 8, _1X1: 16}, 1, 0),
        Configuration("ethos-u85-256", 256, 1, {_1X2: 16, _1X4: 8, _2X2: 8}, 1, 0),
        Configuration("ethos-u85-512", 512, 2, {_2X2: 16, _1X4: 16}, 1, 0),
        Configuration("ethos-u85-1024", 1024, 4, {_2X2: 32, _1X4: 32, _2X4: 16}, 1, 1),
        Configuration("ethos-u85-2048", 2048, 4, {_2X2: 64, _1X4: 64, _4X4: 16}, 2, 1),
    )
}

_BITS = (8, 16, 32, 64)
_CHAINED, _NONE = 2, 3
_SCALAR = 8
_TABLES_BYTES = 2048
# Output's axes in terms of [height, width, depth], by the number in OFM_PRECISION.
_TRANSPOSES = {0: (0, 1, 2), 1: (1, 0, 2), 2: (0, 2, 1), 3: (1, 2, 0), 6: (2, 0, 1), 7: (2, 1, 0)}
_MAX, _AVERAGE, _REDUCE_SUM, _SUM, _NOTHING, _MIN, _ARGMAX_X, _ARGMAX_Y = range(8)
_POOL_NAMES = ("MAX", "AVERAGE", "REDUCE_SUM", "SUM", "NONE", "MIN", "ARGMAX_X", "ARGMAX_Y")
_ELEMENTWISE = numbered(
    "0 MUL ADD SUB MIN MAX LRELU ABS CLZ SHR SHL LSR DIV 16 CMP_EQ CMP_NE CMP_GE CMP_GT 33 AND OR XOR NOT 42 AND_NOT"
)
_UNARY = ("LRELU", "ABS", "CLZ", "NOT")
# Tables by activation function: bits of the index, of an entry, and whether the index is signed.
_TABLES = {1: (8, 8, False), 4: (8, 8, True), 5: (8, 16, True), 7: (8, 32, True), 8: (16, 16, True), 9: (16, 32, True)}
# Rounding by its number in OFM_SCALE; IFM_SCALE has the first two.
_ROUNDINGS = {
    0: Rounding.DOUBLE,
    1: Rounding.NATURAL,
    3: Rounding.SYMMETRIC,
    4: Rounding.TRUNCATE_TO_ZERO,
    5: Rounding.TRUNCATE,
}


class EthosU85(Engine):
    """An Ethos-U85 on a memory."""

    def __init__(self, configuration: Configuration, memory: Memory) -> None:
        super().__init__(commands.COMMANDS, memory)
        self._configuration = configuration
        self._tables = np.zeros(_TABLES_BYTES, np.uint8)
        self._chains: dict[int, Integers] = {}
        self._accumulators: Integers | None = None

    def _execute(self, number: int, parameter: int) -> bool:
        if number == commands.CONV:
            if parameter & 1:
                self._matrix_product()
            else:
                self._convolution(depthwise=False)
        elif number == commands.DEPTHWISE:
            self._convolution(depthwise=True)
        elif number == commands.POOL:
            self._pool(parameter & 7)
        elif number == commands.ELEMENTWISE:
            self._elementwise(parameter & 63)
        elif number == commands.RESIZE:
            self._resize(parameter & 3)
        elif number == commands.DMA_START:
            self._dma()
        else:
            return False
        return True

    # Inputs

    def _map(self, prefix: str) -> FeatureMap:
        precision = self._registers[prefix + "_PRECISION"]
        bits = _BITS[(precision >> (1 if prefix == "OFM" else 2)) & 3]
        return self._feature_map(prefix, bits, bool(precision & 1), (precision >> 6) & 3)

    def _tensor(self, prefix: str, shape: tuple[int, int, int]) -> tuple[Integers, bool]:
        """Returns an input less its zero point, and whether it is signed."""
        get = self._registers
        precision = get[prefix + "_PRECISION"]
        signed = bool(precision & 1)
        zero_point = self._zero_point(prefix, signed)
        if precision >> 14 == _CHAINED:
            number = get[prefix + "_REGION"] & 7
            if number not in self._chains:
                raise NpuFault(f"{prefix} is chained to buffer {number}, which no operation before has filled")
            if self._chains[number].shape != shape:
                raise NpuFault(f"{prefix} is chained to {self._chains[number].shape}, and has shape {shape}")
            return self._chains[number] - zero_point, signed
        return self._load(self._map(prefix), *shape) - zero_point, signed

    def _operand(self, prefix: str, output: tuple[int, int, int]) -> Integers:
        """Returns an operand of an elementwise operation, with the axes that are broadcast as 1."""
        get = self._registers
        broadcast = get[prefix + "_BROADCAST"]
        if broadcast & _SCALAR:
            precision = get[prefix + "_PRECISION"]
            bits, signed = _BITS[(precision >> 2) & 3], bool(precision & 1)
            value = int(wrap(np.array(get["OP_SCALAR"], np.int64), 32))
            if not signed:
                value &= (1 << min(bits, 32)) - 1
            return np.full((1, 1, 1), value - self._zero_point(prefix, signed), np.int64)
        shape = [1 if broadcast >> axis & 1 else size for axis, size in enumerate(output)]
        return self._tensor(prefix, (shape[0], shape[1], shape[2]))[0]

    # Output

    def _output_rounding(self) -> Rounding:
        number = self._registers.parameter("OFM_SCALE") >> 13
        if number not in _ROUNDINGS:
            raise NpuFault(f"OFM_SCALE has rounding {number}, which is not modelled; {list(_ROUNDINGS)} are")
        return _ROUNDINGS[number]

    def _scale_global(self, values: Integers) -> Integers:
        get = self._registers
        return scale(values, get["OFM_SCALE"] & 0x7FFFFFFF, get.parameter("OFM_SCALE") & 63, self._output_rounding())

    def _scale_input(self, values: Integers, prefix: str) -> Integers:
        get = self._registers
        parameter = get.parameter(prefix + "_SCALE")
        rounding = Rounding.NATURAL if parameter >> 13 & 1 else Rounding.DOUBLE
        return scale(values, get[prefix + "_SCALE"] & 0x7FFFFFFF, parameter & 63, rounding)

    def _finish(self, accumulators: Integers, scaled: bool) -> None:
        """Scales accumulators by OFM_SCALE or by channel, and writes; or keeps them for the next operation.

        Args:
          scaled: whether each channel may have a bias and a scale.
        """
        get = self._registers
        if get["ACC_FORMAT"] >> 6 & 1:
            self._accumulators = accumulators
            return
        if scaled and not get["OFM_PRECISION"] >> 8 & 1:
            bias, multiplier, shift = self._scales(accumulators.shape[2])
            self._write(scale(accumulators + bias, multiplier, shift, self._output_rounding()))
        else:
            self._write(self._scale_global(accumulators))

    def _start(self, shape: tuple[int, int, int]) -> Integers:
        """Returns what accumulators begin with."""
        source = self._registers["ACC_FORMAT"] >> 4 & 3
        if source == 0:
            return np.zeros(shape, np.int64)
        if source == 2:
            return self._tensor("IFM2", shape)[0]
        if self._accumulators is None or self._accumulators.shape != shape:
            raise NpuFault("ACC_FORMAT keeps accumulators, and the operation before has left none of this shape")
        return self._accumulators

    def _write(self, scaled: Integers) -> None:
        """Adds the zero point, applies the activation, and writes the output, or keeps it for a chained operation."""
        get = self._registers
        precision = get["OFM_PRECISION"]
        signed, bits = bool(precision & 1), _BITS[(precision >> 1) & 3]
        values = scaled + self._zero_point("OFM", signed)
        activation = get["ACTIVATION"]
        function, table = activation & 31, activation >> 5 & 7
        index_signed = signed
        if function:
            if function not in _TABLES:
                raise NpuFault(f"ACTIVATION has function {function}, which is not modelled; 0 and {list(_TABLES)} are")
            index_signed = _TABLES[function][2]
        if not activation >> 12 & 1:
            low, high = get["ACTIVATION_MIN"], get["ACTIVATION_MAX"]
            if index_signed:
                low, high = get.signed16("ACTIVATION_MIN"), get.signed16("ACTIVATION_MAX")
            values = np.clip(values, low, high)
        if function:
            values = self._look_up(values, *_TABLES[function], table)
        transpose = precision >> 11 & 7
        if transpose not in _TRANSPOSES:
            raise NpuFault(f"OFM_PRECISION has transpose {transpose}; {', '.join(map(str, _TRANSPOSES))} are defined")
        storage = precision >> 14
        if storage == _CHAINED:
            kept = wrap(values, bits)
            self._chains[get["OFM_REGION"] & 7] = kept if signed or bits == 64 else kept & ((1 << bits) - 1)
            return
        if storage == _NONE:
            return
        values = values.transpose(_TRANSPOSES[transpose])
        reverse = precision >> 9 & 3
        if reverse:
            values = np.flip(values, reverse - 1)
        self._store(self._map("OFM"), values)

    def _look_up(self, values: Integers, index_bits: int, bits: int, signed: bool, table: int) -> Integers:
        if index_bits == 16:
            words = self._tables.view("<u4")
            if bits == 16:
                return interpolate(values, words)
            entries = looked_up(words, (values + 0x8000) >> 7)
            base = wrap((entries & 0xFFFF).astype(np.int64), 16)
            slope = wrap((entries >> 16).astype(np.int64), 16)
            return (base << 7) + slope * (values & 0x7F)
        size = 256 * bits // 8
        start = table * size
        if start + size > _TABLES_BYTES:
            raise NpuFault(f"ACTIVATION selects table {table} of {size} bytes; there are {_TABLES_BYTES // size}")
        entries = self._tables[start : start + size].view(f"<{'i' if signed else 'u'}{bits // 8}").astype(np.int64)
        return looked_up(entries, values + 128 if signed else values)

    # Operations

    def _scales(self, channels: int) -> tuple[Integers, Integers, Integers]:
        """Returns bias, multiplier and shift of each output channel."""
        get = self._registers
        length = get["SCALE_LENGTH"] & 0xFFFFF
        if length < 10 * channels:
            raise NpuFault(f"SCALE_LENGTH is {length}, {channels} channels have 10 bytes each")
        data = self._read(get["SCALE_REGION"] & 7, get.address("SCALE_BASE"), length)
        record = data[: 10 * channels].reshape(channels, 10).astype(np.int64)

        def number(start: int, count: int) -> Integers:
            return sum((record[:, start + i] << 8 * i for i in range(count)), np.zeros(channels, np.int64))

        if get["ACC_FORMAT"] & 3 == 0:
            return wrap(number(0, 4), 32), number(4, 4) & 0x7FFFFFFF, record[:, 8] & 63
        return wrap(number(0, 6), 48), number(6, 2) & 0x7FFF, record[:, 8] & 63

    def _weights(self, windows: Windows, channels: int, depthwise: bool, bits: int) -> npt.NDArray[np.int16]:
        """Returns weights as [output channel, height, width, input channel]."""
        get = self._registers
        configuration = self._configuration
        height, width = windows.taps
        depth = 1 if depthwise else windows.depth
        check_size("weights", channels, height, width, depth)
        microblock = get["ACC_FORMAT"] >> 8 & 7
        if microblock not in configuration.microblocks:
            raise NpuFault(
                f"ACC_FORMAT has microblock {microblock}; {configuration.name} has {list(configuration.microblocks)}"
            )
        out_microblock = configuration.microblocks[microblock]
        form = get["WEIGHT_FORMAT"]
        fast, sparse = bool(form & 1), bool(form >> 4 & 1)
        part_kernel = bool(get["KERNEL_STRIDE"] & 4) and not depthwise
        if part_kernel:
            in_block = 16
        elif configuration.macs <= 256 and out_microblock == 16 and not sparse:
            in_block = 32
        else:
            in_block = 128 if sparse and bits == 8 else 64
        layer = weight_order.Layer(
            out_channels=channels,
            height=height,
            width=width,
            in_channels=depth,
            depthwise=depthwise,
            part_kernel_first=part_kernel,
            sparse=sparse,
            input_bits=bits,
            stride_y=windows.stride_y,
            stride_x=windows.stride_x,
            dilation_y=windows.dilation_y,
            dilation_x=windows.dilation_x,
            out_block=get["OFM_BLK_DEPTH_M1"] + 1,
            in_block=in_block,
            out_microblock=out_microblock,
            macs=configuration.macs,
            streams=configuration.decoders,
        )
        weights = np.zeros((channels, height, width, depth), np.int16)
        region = get["WEIGHT_REGION"] & 7
        for stream in range(1 if fast else configuration.decoders):
            name = f"WEIGHT{stream or ''}"
            length = get[name + "_LENGTH"]
            if not length:
                continue
            data = self._read(region, get.address(name + "_BASE"), length).tobytes()
            if fast:
                weight_order.arrange(weights, weight_order.decode_fast(data), weight_order.interleaved_order(layer))
            else:
                weight_order.arrange(weights, decoded(data), weight_order.order(layer, stream))
        return weights

    def _convolution(self, depthwise: bool) -> None:
        output = self._output_shape()
        check_size("an output", *output)
        depth = self._registers["IFM_DEPTH_M1"] + 1
        channels = output[2]
        if depthwise and depth != channels:
            raise NpuFault(
                f"IFM_DEPTH_M1 gives {depth} channels, OFM_DEPTH_M1 {channels}; a depthwise one needs as many"
            )
        windows = self._windows(output, depth)
        bits = _BITS[self._registers["IFM_PRECISION"] >> 2 & 3]
        weights = self._weights(windows, channels, depthwise, bits)
        values = windows.pad(self._tensor("IFM", (*windows.input_size(), depth))[0], 0)
        start = self._start(output)
        self._operation.macs = output[0] * output[1] * weights.size
        self._finish(start + windows.convolve(values, weights, depthwise), scaled=True)

    def _matrix_product(self) -> None:
        """Takes the weights of a 1 x 1 convolution from IFM2: [1, output channel, input channel]."""
        output = self._output_shape()
        check_size("an output", *output)
        depth = self._registers["IFM_DEPTH_M1"] + 1
        windows = self._windows(output, depth)
        if windows.input_size() != output[:2]:
            raise NpuFault(f"a matrix product of {windows.input_size()} rows and columns gives {output[:2]}")
        values = self._tensor("IFM", (*output[:2], depth))[0]
        weights = self._tensor("IFM2", (1, output[2], depth))[0]
        check_size("weights", output[2], depth)
        self._operation.macs = output[0] * output[1] * weights.size
        product = (values.astype(np.float64) @ weights[0].astype(np.float64).T).astype(np.int64)
        self._finish(self._start(output) + product, scaled=True)

    def _pool(self, mode: int) -> None:
        self._operation.name = f"POOL {_POOL_NAMES[mode]}"
        output = self._output_shape()
        depth = self._registers["IFM_DEPTH_M1"] + 1
        check_size("an output", output[0], output[1], depth)
        if mode == _NOTHING:
            self._finish(self._start(output), scaled=True)
            return
        channels = 1 if mode == _REDUCE_SUM else depth
        if output[2] != channels:
            raise NpuFault(f"OFM_DEPTH_M1 gives {output[2]} channels, the operation makes {channels}")
        windows = self._windows(output, depth)
        values = self._tensor("IFM", (*windows.input_size(), depth))[0]
        self._operation.macs = output[0] * output[1] * depth * windows.taps[0] * windows.taps[1]
        shape = (output[0], output[1], depth)
        if mode in (_MAX, _MIN):
            fill = -(1 << 48) if mode == _MAX else 1 << 48
            result = np.full(shape, fill, np.int64)
            choose = np.maximum if mode == _MAX else np.minimum
            for _, _, window in windows.each(windows.pad(values, fill)):
                choose(result, window, out=result)
        elif mode in (_ARGMAX_X, _ARGMAX_Y):
            best = np.full(shape, -(1 << 48), np.int64)
            result = np.zeros(shape, np.int64)
            for y, x, window in windows.each(windows.pad(values, -(1 << 48))):
                larger = window > best
                best = np.where(larger, window, best)
                result = np.where(larger, x if mode == _ARGMAX_X else y, result)
            result <<= 16
        else:
            result = np.zeros(shape, np.int64)
            for _, _, window in windows.each(windows.pad(values, 0)):
                result += window
            if mode == _REDUCE_SUM:
                result = result.sum(axis=2, keepdims=True)
        if mode == _AVERAGE:
            result = divide(result, windows.counts()[:, :, None])
        self._finish(result + self._start(result.shape), scaled=True)

    def _elementwise(self, mode: int) -> None:
        if mode not in _ELEMENTWISE:
            raise NpuFault(f"elementwise mode {mode}; {', '.join(map(str, _ELEMENTWISE))} are defined")
        name = _ELEMENTWISE[mode]
        self._operation.name = f"ELEMENTWISE {name}"
        output = self._output_shape()
        check_size("an output", *output)
        a = self._operand("IFM", output)
        unary = name in _UNARY
        result = self._unary(name, a) if unary else self._binary(name, a, self._operand("IFM2", output))
        self._write(self._scale_global(np.broadcast_to(result, output)))

    def _unary(self, name: str, values: Integers) -> Integers:
        if name == "CLZ":
            return count_leading_zeros(values)
        if name == "NOT":
            return ~values
        if name == "ABS":
            return np.abs(self._scale_input(values, "IFM"))
        return np.where(values >= 0, self._scale_input(values, "IFM"), self._scale_input(values, "IFM2"))

    def _binary(self, name: str, a: Integers, b: Integers) -> Integers:
        if name == "MUL":
            return a * b
        if name == "DIV":
            # Integers are rounded towards zero.
            return np.where(b == 0, 0, np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1)))
        if name in ("AND", "OR", "XOR", "AND_NOT"):
            return {"AND": a & b, "OR": a | b, "XOR": a ^ b, "AND_NOT": a & ~b}[name]
        if name in ("SHR", "SHL", "LSR"):
            a, b = np.broadcast_arrays(a, b)
            if np.any((b < 0) | (b > 31)):
                raise NpuFault("an element is shifted by less than 0 or more than 31 bits")
            if name == "SHL":
                return wrap(a << b, 32)
            return scale(a, 1, b, self._output_rounding()) if name == "SHR" else (a & 0xFFFFFFFF) >> b
        a, b = self._scale_input(a, "IFM"), self._scale_input(b, "IFM2")
        if name.startswith("CMP"):
            compare = {"CMP_EQ": np.equal, "CMP_NE": np.not_equal, "CMP_GE": np.greater_equal, "CMP_GT": np.greater}[
                name
            ]
            # All bits of the result say whether it holds.
            return -compare(a, b).astype(np.int64)
        return {"ADD": np.add, "SUB": np.subtract, "MIN": np.minimum, "MAX": np.maximum}[name](a, b)

    def _resize(self, mode: int) -> None:
        get = self._registers
        self._operation.name = f"RESIZE {('BILINEAR', 'REPLICATE', 'NEAREST')[min(mode, 2)]}"
        if mode == 3:
            raise NpuFault("resize mode 3; 0, 1 and 2 are defined")
        output = self._output_shape()
        depth = get["IFM_DEPTH_M1"] + 1
        height, width = get["KERNEL_HEIGHT_M1"] + 1, get["KERNEL_WIDTH_M1"] + 1
        check_size("an output", *output)
        values = self._tensor("IFM", (height, width, depth))[0]
        y, y_fraction, y_scale = self._steps("Y", output[0])
        x, x_fraction, x_scale = self._steps("X", output[1])
        if mode == 0:
            rows = [np.clip(y, 0, height - 1), np.clip(y + 1, 0, height - 1)]
            columns = [np.clip(x, 0, width - 1), np.clip(x + 1, 0, width - 1)]
            fy, fx = y_fraction[:, None, None], x_fraction[None, :, None]
            top = values[rows[0]][:, columns[0]] * (x_scale - fx) + values[rows[0]][:, columns[1]] * fx
            bottom = values[rows[1]][:, columns[0]] * (x_scale - fx) + values[rows[1]][:, columns[1]] * fx
            result = top * (y_scale - fy) + bottom * fy
        else:
            y = np.where((mode == 2) & (2 * y_fraction >= y_scale), y + 1, y)
            x = np.where((mode == 2) & (2 * x_fraction >= x_scale), x + 1, x)
            result = values[np.clip(y, 0, height - 1)][:, np.clip(x, 0, width - 1)]
        self._finish(result << 16, scaled=False)

    def _steps(self, axis: str, count: int) -> tuple[Integers, Integers, int]:
        """Returns for each output position the input position, the fraction after it, and its denominator."""
        get = self._registers
        denominator = get[f"RESIZE_{axis}_SCALE_N_M1"] + 1
        offset = get[f"RESIZE_{axis}_OFFSET"] & 0xFFF
        offset -= 0x1000 if offset & 0x800 else 0
        whole = get.parameter(f"RESIZE_{axis}") & 15
        rest = get[f"RESIZE_{axis}"] & 0x7FF
        position = np.arange(count) * (whole * denominator + rest) + offset
        return position // denominator, position % denominator, denominator

    def _dma(self) -> None:
        get = self._registers
        source, destination = get["DMA0_SRC_REGION"], get["DMA0_DST_REGION"]
        if source >> 8 & 1:
            raise NpuFault("DMA0_SRC_REGION is internal, only a destination can be")
        dimensions = source >> 9 & 3
        length = get.address("DMA0_LEN")
        rows = get["DMA0_SIZE0"] if dimensions or source >> 11 & 1 or destination >> 11 & 1 else 1
        planes = get["DMA0_SIZE1"] if dimensions == 2 else 1
        if dimensions == 3 or rows == 0 or planes == 0:
            raise NpuFault(
                f"a DMA in mode {dimensions} of {rows} pieces in {planes} planes; 0 to 2 and at least 1 are defined"
            )
        if (source | destination) >> 11 & 1:
            self._check_largest_index(source, destination, length)
        for plane in range(planes):
            indices = self._indices(plane, rows) if (source | destination) >> 11 & 1 else None
            for row in range(rows):
                at = row if indices is None else int(indices[row])
                reads = get.address("DMA0_SRC") + plane * self._stride("SRC", 1, dimensions == 2)
                writes = get.address("DMA0_DST") + plane * self._stride("DST", 1, dimensions == 2)
                reads += (at if source >> 11 & 1 else row) * self._stride("SRC", 0, rows > 1 or bool(source >> 11 & 1))
                writes += (at if destination >> 11 & 1 else row) * self._stride(
                    "DST", 0, rows > 1 or bool(destination >> 11 & 1)
                )
                data = np.array(self._read(source & 7, reads, length))
                if destination >> 8 & 1:
                    if writes + length > _TABLES_BYTES:
                        raise NpuFault(f"DMA0_DST is 0x{writes:x} of {_TABLES_BYTES} bytes of internal memory")
                    self._tables[writes : writes + length] = data
                else:
                    self._memory.write(self._base(destination & 7) + writes, data)
                    self._traffic(destination & 7).written += length

    def _check_largest_index(self, source: int, destination: int, length: int) -> None:
        """Raises NpuFault if an index could reach beyond the memory, whatever those that are there now are."""
        get = self._registers
        for side, region in (("SRC", source), ("DST", destination)):
            if region >> 11 & 1 and not region >> 8 & 1:
                offset = get.address(f"DMA0_{side}") + get["DMA0_IDX_MAX"] * get.stride(f"DMA0_{side}_STRIDE0")
                self._memory.read(self._base(region & 7) + offset, length)

    def _stride(self, side: str, axis: int, used: bool) -> int:
        return self._registers.stride(f"DMA0_{side}_STRIDE{axis}") if used else 0

    def _indices(self, plane: int, count: int) -> Integers:
        get = self._registers
        skip = get.stride("DMA0_IDX_SKIP1") if plane else 0
        address = get.address("DMA0_IDX") + plane * (4 * count + skip)
        indices = self._read(get["DMA0_IDX_REGION"] & 7, address, 4 * count).view("<i4").astype(np.int64)
        limit = get["DMA0_IDX_MAX"]
        if np.any((indices < 0) | (indices > limit)):
            raise NpuFault(f"an index of a DMA is not among 0 to {limit}")
        return indices
