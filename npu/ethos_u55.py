"""A functional model of Ethos-U55 and U65: executes a command stream on memory, without a notion of time.

Operations run one after the other, as the waits and block dependencies of a correct stream guarantee.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu import commands_u55 as commands
from npu import weight_order
from npu.arithmetic import Integers, Rounding, count_leading_zeros, interpolate, looked_up, scale, wrap
from npu.engine import Engine, FeatureMap, Windows, check_size, decoded, divide
from npu.fault import NpuFault
from npu.memory import Memory


@dataclass(frozen=True)
class Configuration:
    """A size of the NPU."""

    name: str
    product: int  # CONFIG.product: 0 for U55, 1 for U65
    macs: int  # per cycle, of one core
    cores: int
    out_microblock: int
    in_microblock: int
    shram_kib: int  # of one core

    @property
    def config(self) -> int:
        """Returns what the register CONFIG holds: log2 of the multipliers, internal memory in KiB, product."""
        return int(math.log2(self.cores * self.macs)) | self.cores * self.shram_kib << 8 | self.product << 28


CONFIGURATIONS = {
    configuration.name: configuration
    for configuration in (
        Configuration("ethos-u55-32", 0, 32, 1, 4, 8, 16),
        Configuration("ethos-u55-64", 0, 64, 1, 8, 8, 16),
        Configuration("ethos-u55-128", 0, 128, 1, 8, 8, 24),
        Configuration("ethos-u55-256", 0, 256, 1, 8, 8, 48),
        Configuration("ethos-u65-256", 1, 256, 1, 8, 8, 48),
        Configuration("ethos-u65-512", 1, 256, 2, 8, 8, 48),
    )
}

# The last 2 KiB of the internal memory hold tables, which an ACTIVATION selects in steps of 256 bytes.
_TABLES_BYTES = 2048
_SLOT_BYTES = 256

_PRECISIONS = (8, 16, 32)
_MAX, _AVERAGE, _REDUCE_SUM = range(3)
_MUL, _ADD, _SUB, _MIN, _MAXIMUM, _LRELU, _ABS, _CLZ, _SHR, _SHL = range(10)
_ELEMENTWISE_NAMES = ("MUL", "ADD", "SUB", "MIN", "MAX", "LRELU", "ABS", "CLZ", "SHR", "SHL")
_UNARY = (_LRELU, _ABS, _CLZ)
_POOL_NAMES = ("MAX", "AVERAGE", "REDUCE_SUM")
_TABLE_0 = 16
# An addition shifts the operand that OPA_SCALE does not scale by so many bits, by the bits of the inputs.
_ADDITION_SHIFT = {8: 19}


class EthosU55(Engine):
    """An Ethos-U55 or U65 on a memory."""

    def __init__(self, configuration: Configuration, memory: Memory) -> None:
        super().__init__(commands.COMMANDS, memory)
        self._configuration = configuration
        self._shram = np.zeros(configuration.shram_kib * 1024, np.uint8)

    def _execute(self, number: int, parameter: int) -> bool:
        if number == commands.CONV:
            self._convolution(depthwise=False)
        elif number == commands.DEPTHWISE:
            self._convolution(depthwise=True)
        elif number == commands.POOL:
            self._pool(parameter)
        elif number == commands.ELEMENTWISE:
            self._elementwise(parameter)
        elif number == commands.DMA_START:
            self._dma()
        else:
            return False
        return True

    def _input(self, prefix: str) -> FeatureMap:
        get = self._registers
        precision = get[prefix + "_PRECISION"]
        width = (precision >> 2) & 3
        if width == 3:
            raise NpuFault(f"{prefix}_PRECISION is 0x{precision:x}: elements of 64 bits can't be read")
        return self._feature_map(prefix, _PRECISIONS[width], bool(precision & 1), (precision >> 6) & 3)

    # Output stage

    def _output_map(self) -> FeatureMap:
        precision = self._registers["OFM_PRECISION"]
        width = (precision >> 1) & 3
        if width == 3:
            raise NpuFault(f"OFM_PRECISION is 0x{precision:x}: elements of 64 bits can't be written")
        return self._feature_map("OFM", _PRECISIONS[width], bool(precision & 1), (precision >> 6) & 3)

    def _rounding(self, register: str) -> Rounding:
        mode = self._registers[register] >> 14
        if mode == 3:
            raise NpuFault(f"{register} has rounding mode 3; 0, 1 and 2 are defined")
        return Rounding(mode)

    def _write(self, scaled: Integers) -> None:
        """Adds the zero point, applies the activation, and writes the output."""
        fm = self._output_map()
        get = self._registers
        activation = get["ACTIVATION"]
        function, clip = activation & 31, (activation >> 12) & 7
        values = scaled + self._zero_point("OFM", fm.signed)
        if fm.bits < 32 or clip:
            signed = fm.signed if clip == 0 else clip in (3, 5)
            low, high = get["ACTIVATION_MIN"], get["ACTIVATION_MAX"]
            if signed:
                low, high = get.signed16("ACTIVATION_MIN"), get.signed16("ACTIVATION_MAX")
            values = np.clip(values, low, high)
        if function >= _TABLE_0 and function < _TABLE_0 + 8:
            values = self._look_up(values, function - _TABLE_0, fm, signed=fm.signed if clip == 0 else clip in (3, 5))
        elif function != 0:
            raise NpuFault(f"ACTIVATION has function {function}, which is not modelled; 0 and the tables 16 to 23 are")
        self._store(fm, values)

    def _look_up(self, values: Integers, slot: int, fm: FeatureMap, signed: bool) -> Integers:
        tables = self._shram[len(self._shram) - _TABLES_BYTES :][slot * _SLOT_BYTES :]
        if fm.bits == 16:
            words = tables.view("<u4")
            if len(words) < 512:
                raise NpuFault(f"ACTIVATION selects table {slot}, behind which there is no room for one of 16 bits")
            return interpolate(values, words)
        index = values + 128 if signed else values
        if fm.bits == 8:
            return looked_up(tables[:256].view(np.int8 if fm.signed else np.uint8).astype(np.int64), index)
        words = tables.view("<i4")
        if len(words) < 256:
            raise NpuFault(f"ACTIVATION selects table {slot}, behind which there is no room for one of 32 bits")
        return looked_up(words[:256].astype(np.int64), index)

    def _scale_output(self, accumulators: Integers) -> Integers:
        """Scales by OFM_SCALE, which holds for all channels."""
        get = self._registers
        shift = get.parameter("OFM_SCALE") & 63
        return scale(accumulators, get["OFM_SCALE"], shift, self._rounding("OFM_PRECISION"))

    def _window_input(self, windows: Windows, fill: int | None) -> Integers:
        """Returns the padded input of windows, less its zero point; padding is `fill` or the zero point."""
        fm = self._input("IFM")
        zero_point = self._zero_point("IFM", fm.signed)
        height, width = windows.input_size()
        values = self._load(fm, height, width, windows.depth) - zero_point
        return windows.pad(values, 0 if fill is None else fill)

    # Operations

    def _scales(self, channels: int) -> tuple[Integers, Integers, Integers]:
        """Returns bias, multiplier and shift of each output channel."""
        get = self._registers
        region = get["SCALE_REGION"] & 7
        bias = np.zeros(channels, np.int64)
        multiplier = np.zeros(channels, np.int64)
        shift = np.zeros(channels, np.int64)
        for core in range(self._configuration.cores):
            name = "SCALE1" if core else "SCALE"
            own = len(range(core, channels, self._configuration.cores))
            if own == 0:
                continue
            length = get[name + "_LENGTH"]
            if length < 10 * own:
                raise NpuFault(f"{name}_LENGTH is {length}, {own} channels have 10 bytes each")
            data = self._read(region, get.address(name + "_BASE"), length)
            record = data[: 10 * own].reshape(own, 10).astype(np.int64)
            low = record[:, 0] | record[:, 1] << 8 | record[:, 2] << 16 | record[:, 3] << 24 | record[:, 4] << 32
            bias[core :: self._configuration.cores] = wrap(low, 40)
            word = record[:, 5] | record[:, 6] << 8 | record[:, 7] << 16 | record[:, 8] << 24
            multiplier[core :: self._configuration.cores] = word
            shift[core :: self._configuration.cores] = record[:, 9] & 63
        return bias, multiplier, shift

    def _weights(self, windows: Windows, channels: int, depthwise: bool, bits: int) -> npt.NDArray[np.int16]:
        """Returns weights as [output channel, height, width, input channel]."""
        get = self._registers
        region = get["WEIGHT_REGION"] & 7
        cores = self._configuration.cores
        height, width = windows.taps
        block = get["OFM_BLK_DEPTH_M1"] + 1
        depth = 1 if depthwise else windows.depth
        check_size("weights", channels, height, width, depth)
        weights = np.zeros((channels, height, width, depth), np.int16)
        for core in range(cores):
            name = "WEIGHT1" if core else "WEIGHT"
            own = len(range(core, channels, cores))
            if own == 0:
                continue
            stream = self._read(region, get.address(name + "_BASE"), get[name + "_LENGTH"])
            layer = weight_order.Layer(
                out_channels=own,
                height=height,
                width=width,
                in_channels=depth,
                depthwise=depthwise,
                part_kernel_first=bool(get["KERNEL_STRIDE"] & 4),
                input_bits=bits,
                dilation_y=windows.dilation_y,
                dilation_x=windows.dilation_x,
                block_depth=(block + cores - 1 - core) // cores,
                out_microblock=self._configuration.out_microblock,
                in_microblock=self._configuration.in_microblock,
            )
            weights[core::cores] = weight_order.arrange(decoded(stream.tobytes()), layer)
        return weights

    def _convolution(self, depthwise: bool) -> None:
        output = self._output_shape()
        check_size("an output", *output)
        fm = self._input("IFM")
        if fm.bits == 32:
            raise NpuFault("IFM_PRECISION has 32 bits, a convolution takes 8 or 16")
        depth = self._registers["IFM_DEPTH_M1"] + 1
        channels = output[2]
        if depthwise and depth != channels:
            raise NpuFault(
                f"IFM_DEPTH_M1 gives {depth} channels, OFM_DEPTH_M1 {channels}; a depthwise one needs as many"
            )
        windows = self._windows(output, depth)
        weights = self._weights(windows, channels, depthwise, fm.bits)
        bias, multiplier, shift = self._scales(channels)
        sums = windows.convolve(self._window_input(windows, None), weights, depthwise)
        self._operation.macs = output[0] * output[1] * weights.size
        total = sums + bias
        self._write(scale(total, multiplier, shift, self._rounding("OFM_PRECISION")))

    def _pool(self, mode: int) -> None:
        if mode > _REDUCE_SUM:
            raise NpuFault(f"pooling mode {mode}; 0 (MAX), 1 (AVERAGE) and 2 (REDUCE_SUM) are defined")
        self._operation.name = f"POOL {_POOL_NAMES[mode]}"
        output = self._output_shape()
        depth = self._registers["IFM_DEPTH_M1"] + 1
        check_size("an output", output[0], output[1], depth)
        windows = self._windows(output, depth)
        if mode == _MAX:
            values = self._window_input(windows, -(1 << 40))
            result = np.full((output[0], output[1], depth), -(1 << 40), np.int64)
            for _, _, window in windows.each(values):
                np.maximum(result, window, out=result)
        else:
            values = self._window_input(windows, None)
            result = np.zeros((output[0], output[1], depth), np.int64)
            for _, _, window in windows.each(values):
                result += window
        self._operation.macs = output[0] * output[1] * depth * windows.taps[0] * windows.taps[1]
        if mode == _REDUCE_SUM:
            result = result.sum(axis=2, keepdims=True)
        if output[2] != result.shape[2]:
            raise NpuFault(f"OFM_DEPTH_M1 gives {output[2]} channels, the operation makes {result.shape[2]}")
        get = self._registers
        if not get["OFM_PRECISION"] >> 8 & 1:
            bias, multiplier, shift = self._scales(output[2])
            self._write(scale(result + bias, multiplier, shift, self._rounding("OFM_PRECISION")))
        elif mode == _AVERAGE and windows.padded:
            # The NPU divides by the number of elements inside.
            counts = windows.counts()[:, :, None]
            self._write(divide(result, counts))
        else:
            self._write(self._scale_output(result))

    def _elementwise(self, mode: int) -> None:
        if mode > _SHL:
            raise NpuFault(f"elementwise mode {mode}; 0 (MUL) to 9 (SHL) are defined")
        self._operation.name = f"ELEMENTWISE {_ELEMENTWISE_NAMES[mode]}"
        output = self._output_shape()
        height, width, depth = output
        check_size("an output", *output)
        fm = self._input("IFM")
        a = self._load(fm, height, width, depth) - self._zero_point("IFM", fm.signed)
        if mode in _UNARY:
            self._write(self._unary(mode, a))
            return
        b = self._second_operand(output)
        first, second = (b, a) if self._registers["IFM2_BROADCAST"] & 0x40 else (a, b)
        first, second = np.broadcast_arrays(first, second)
        self._write(self._binary(mode, first, second, fm.bits))

    def _second_operand(self, output: tuple[int, int, int]) -> Integers:
        get = self._registers
        precision = get["IFM2_PRECISION"]
        broadcast = get["IFM2_BROADCAST"]
        if broadcast & 0x80:
            signed = bool(precision & 1)
            bits = _PRECISIONS[min((precision >> 2) & 3, 2)]
            value = get.signed16("IFM2_SCALAR") if signed else get["IFM2_SCALAR"]
            if bits == 8:
                value = value & 0xFF if not signed else int(wrap(np.array(value), 8))
            return np.full((1, 1, 1), value - self._zero_point("IFM2", signed), np.int64)
        fm = self._input("IFM2")
        shape = [1 if broadcast >> axis & 1 else size for axis, size in enumerate(output)]
        return self._load(fm, *shape) - self._zero_point("IFM2", fm.signed)

    def _unary(self, mode: int, values: Integers) -> Integers:
        if mode == _CLZ:
            return count_leading_zeros(values)
        if mode == _ABS:
            return self._scale_output(np.abs(values))
        # Values below 0 are scaled.
        return np.where(values >= 0, values, self._scale_output(values))

    def _binary(self, mode: int, a: Integers, b: Integers, bits: int) -> Integers:
        if mode == _MUL:
            return self._scale_output(a * b)
        if mode in (_ADD, _SUB):
            a, b = self._scale_operands(a, b, bits)
            return self._scale_output(a + b if mode == _ADD else a - b)
        if mode == _MIN:
            return np.minimum(a, b)
        if mode == _MAXIMUM:
            return np.maximum(a, b)
        if np.any((b < 0) | (b > 31)):
            raise NpuFault("an element is shifted by less than 0 or more than 31 bits")
        if mode == _SHL:
            return wrap(a << b, 32)
        return scale(a, 1, b, self._rounding("OFM_PRECISION"))

    def _scale_operands(self, a: Integers, b: Integers, bits: int) -> tuple[Integers, Integers]:
        """Returns both operands of an addition as the output's scale expects them."""
        get = self._registers
        mode = (get["IFM_PRECISION"] >> 8) & 3
        if mode == 0:
            return a * (get["OPA_SCALE"] & 0xFFFF), b * (get["OPB_SCALE"] & 0xFFFF)
        if mode == 3:
            raise NpuFault("IFM_PRECISION has scale mode 3; 0, 1 and 2 are defined")
        shift = get.parameter("OPA_SCALE") & 63
        rounding = self._rounding("IFM_PRECISION")
        if bits not in _ADDITION_SHIFT:
            raise NpuFault(f"IFM_PRECISION has scale mode {mode} and {bits} bits, which is modelled with 8 bits only")
        left = _ADDITION_SHIFT[bits]
        if mode == 1:
            return scale(a, get["OPA_SCALE"], shift, rounding), b << left
        return a << left, scale(b, get["OPA_SCALE"], shift, rounding)

    def _dma(self) -> None:
        get = self._registers
        source, destination = get["DMA0_SRC_REGION"], get["DMA0_DST_REGION"]
        if (source | destination) >> 9 & 7:
            raise NpuFault("a DMA in two or three dimensions or with indices, which is not modelled")
        if source >> 8 & 1:
            raise NpuFault("DMA0_SRC_REGION is internal, only a destination can be")
        length = get.address("DMA0_LEN")
        data = self._read(source & 7, get.address("DMA0_SRC"), length)
        address = get.address("DMA0_DST")
        if destination >> 8 & 1:
            if address + length > len(self._shram):
                raise NpuFault(f"DMA0_DST is 0x{address:x} of {len(self._shram)} bytes of internal memory")
            self._shram[address : address + length] = data
        else:
            self._memory.write(self._base(destination & 7) + address, np.array(data))
            self._traffic(destination & 7).written += length
