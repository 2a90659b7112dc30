"""Writes Fourier transforms as operators on real numbers."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from tools.pipeline.export.ir.operators import RESHAPES
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.rewriting import named_arguments
from tools.pipeline.export.rewrite.spectra.emitter import Emitter
from tools.pipeline.export.rewrite.spectra.spectrum import SAME, Spectrum
from tools.quiet.console import UserError

_aten = torch.ops.aten
_own = torch.ops.torch_fusion

# Transforms that are rewritten to the last dimension: the operator for all dimensions but the last, and for the last.
ALONG_LAST: dict[Any, tuple[Any, Any]] = {
    **{
        target: (target, target)
        for target in (
            _aten.fft_fft.default,
            _aten.fft_hfft.default,
            _aten.fft_ifft.default,
            _aten.fft_ihfft.default,
            _aten.fft_irfft.default,
            _aten.fft_rfft.default,
        )
    },
    _aten.fft_fft2.default: (_aten.fft_fft.default, _aten.fft_fft.default),
    _aten.fft_fftn.default: (_aten.fft_fft.default, _aten.fft_fft.default),
    _aten.fft_ifft2.default: (_aten.fft_ifft.default, _aten.fft_ifft.default),
    _aten.fft_ifftn.default: (_aten.fft_ifft.default, _aten.fft_ifft.default),
    _aten.fft_irfft2.default: (_aten.fft_ifft.default, _aten.fft_irfft.default),
    _aten.fft_irfftn.default: (_aten.fft_ifft.default, _aten.fft_irfft.default),
    _aten.fft_rfft2.default: (_aten.fft_fft.default, _aten.fft_rfft.default),
    _aten.fft_rfftn.default: (_aten.fft_fft.default, _aten.fft_rfft.default),
}
# The normalization of a transform that is computed by the inverse transform.
_INVERSE_NORMS = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def is_complex(node: Any) -> bool:
    """Whether an operand is a complex number or tensor."""
    if isinstance(node, complex):
        return True
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.is_complex()


def stft(emitter: Emitter, node: Node) -> Spectrum:
    """Transforms frames of signals, as torch.stft() documents it."""
    given = named_arguments(node)
    x, size = given["self"], given["n_fft"]
    _check_sizes(emitter, x)
    if given.get("center"):
        rank = x.meta["val"].dim()
        shape = list(x.meta["val"].shape)
        x = emitter.emit(_aten.view.default, x, [*[1] * (3 - rank), *shape])
        x = emitter.emit(_aten.pad.default, x, [size // 2, size // 2], given["pad_mode"])
        x = emitter.emit(_aten.view.default, x, [*shape[:-1], shape[-1] + size // 2 * 2])
    hop = given["hop_length"] or size // 4
    length = given["win_length"] or size
    window = given["window"]
    if window is None and length < size:
        window = emitter.emit(_aten.full.default, [length], 1.0)
    count = 1 + (x.meta["val"].shape[-1] - size) // hop
    signal, pad, reflect, factor = _signal(emitter, x, takes_pad=True)
    if given["normalized"]:
        factor /= math.sqrt(size)
    window = _window(emitter, window, size, (size - length) // 2, factor)
    onesided = given["onesided"] is None or given["onesided"]
    result = node.meta["val"].shape
    of_transforms = tuple(result if is_complex(node) else result[:-1])
    return Spectrum(node, signal, window, size, hop, pad, reflect, count, onesided, of_transforms, True, False)


def fft(emitter: Emitter, node: Node) -> Spectrum:
    """Transforms the last dimension, or frames that unfold() cut from signals, possibly with a window."""
    given = named_arguments(node)
    x = given["self"]
    _check_sizes(emitter, x)
    rank = x.meta["val"].dim()
    length = x.meta["val"].shape[-1]
    size = given["n"] or length
    scale = _scale(given["norm"], size)
    onesided = node.target == _aten.fft_rfft.default
    shape = tuple(node.meta["val"].shape)
    source, window = x, None
    if x.target == _aten.mul.Tensor and isinstance(x.args[1], Node):
        for frames, factors in (x.args, x.args[::-1]):
            if frames.target == _aten.unfold.default and factors.meta["val"].shape == (length,):
                source, window = frames, factors
    is_cut = source.target == _aten.unfold.default and size >= length
    is_known = window is None or emitter.value(window) is not None
    if is_cut and source.args[1] % (rank - 1) == rank - 2 and is_known:
        signal, pad, reflect, factor = _signal(emitter, source.args[0], takes_pad=False)
        if window is None and size > length:
            window = emitter.emit(_aten.full.default, [length], 1.0)
        window = _window(emitter, window, size, 0, factor * scale)
        hop, count = source.args[3], shape[-2]
        return Spectrum(node, signal, window, size, hop, pad, reflect, count, onesided, shape, True, True)
    signal, pad, reflect, factor = _signal(emitter, x, takes_pad=False)
    window = _window(emitter, None, size, 0, factor * scale)
    return Spectrum(node, signal, window, size, size, pad, reflect, 1, onesided, shape, False, True)


def along_last(emitter: Emitter, node: Node) -> Node:
    """Applies the same transforms along the last dimension, one after another, by operators that have a real form."""
    given = named_arguments(node)
    x, norm = given["self"], given["norm"]
    rank = x.meta["val"].dim()
    if "n" in given:
        return _along(emitter, node.target, x, given["n"], given["dim"], norm)
    sizes, dims = given["s"], given["dim"]
    if dims is None:
        dims = range(rank if sizes is None else len(sizes))
        dims = [dim - len(dims) for dim in dims]
    sizes = [None if sizes is None or sizes[index] == -1 else sizes[index] for index in range(len(dims))]
    others, last = ALONG_LAST[node.target]
    axes = [(others, sizes[index], dims[index]) for index in range(len(dims) - 1)]
    axes.append((last, sizes[-1], dims[-1]))
    # For real signals, the last dimension has half a spectrum: it is transformed first, and last by the inverse.
    for target, size, dim in axes if last == _aten.fft_irfft.default else reversed(axes):
        x = _along(emitter, target, x, size, dim, norm)
    return x


def _along(emitter: Emitter, target: Any, x: Node, size: int | None, dim: int, norm: str | None) -> Node:
    rank = x.meta["val"].dim()
    dim %= rank
    if dim != rank - 1:
        x = emitter.emit(_aten.transpose.int, x, dim, rank - 1)
    if target in (_aten.fft_hfft.default, _aten.fft_irfft.default) and not is_complex(x):
        x = emitter.emit(_aten.to.dtype, x, x.meta["val"].dtype.to_complex())
    if target == _aten.fft_hfft.default:
        conjugate = emitter.emit(_aten.conj_physical.default, x)
        x = emitter.emit(_aten.fft_irfft.default, conjugate, size, -1, _INVERSE_NORMS[norm])
    elif target == _aten.fft_ihfft.default or (target == _aten.fft_ifft.default and not is_complex(x)):
        forward = _aten.fft_rfft.default if target == _aten.fft_ihfft.default else _aten.fft_fft.default
        x = emitter.emit(_aten.conj_physical.default, emitter.emit(forward, x, size, -1, _INVERSE_NORMS[norm]))
    else:
        x = emitter.emit(target, x, size, -1, norm)
    return x if dim == rank - 1 else emitter.emit(_aten.transpose.int, x, dim, rank - 1)


def transformed(emitter: Emitter, node: Node) -> Node:
    """Transforms complex numbers in either direction, as the sum of the transforms of their real and imaginary
    parts.
    """
    given = named_arguments(node)
    source = given["self"]
    _check_sizes(emitter, source)
    pair = emitter.pair(source)
    *outer, length, _ = pair.meta["val"].shape
    size = given["n"] or length
    if pair.meta["val"].dtype != torch.float32:
        raise emitter.unknown()
    if length > size:
        pair = emitter.emit(_aten.slice.Tensor, pair, -2, 0, size)
    elif length < size:
        pair = emitter.emit(_aten.constant_pad_nd.default, pair, [0, 0, 0, size - length])
    signal = emitter.emit(_aten.transpose.int, pair, len(outer), len(outer) + 1)
    signal = emitter.emit(_aten.reshape.default, signal, [-1, size])
    is_inverse = node.target == _aten.fft_ifft.default
    norm = _INVERSE_NORMS[given["norm"]] if is_inverse else given["norm"]
    window = _window(emitter, None, size, 0, _scale(norm, size))
    spectrum = Spectrum(node, signal, window, size, size, 0, False, 1, False, (), False, True)
    result = emitter.run(_own.stft.default, spectrum, (), False)
    result = emitter.emit(_aten.reshape.default, result, [*outer, 2, size, 2])
    (a, b), (c, d) = (
        [emitter.part(emitter.emit(_aten.select.int, result, -3, each), part) for part in (0, 1)] for each in (0, 1)
    )
    # The inverse transform of real numbers is the conjugate of the forward one.
    add, sub = _aten.add.Tensor, _aten.sub.Tensor
    if is_inverse:
        return emitter.joined(emitter.emit(add, a, d), emitter.emit(sub, c, b))
    return emitter.joined(emitter.emit(sub, a, d), emitter.emit(add, b, c))


def signals_of(emitter: Emitter, node: Node) -> Node:
    """Returns the real signals of spectra, as torch.fft.irfft() documents it."""
    given = named_arguments(node)
    source = given["self"]
    _check_sizes(emitter, source)
    size = 2 * (source.meta["val"].shape[-1] - 1) if given["n"] is None else given["n"]
    return _inverse(emitter, emitter.pair(source), size, given["norm"])


def overlapped(emitter: Emitter, node: Node) -> Node:
    """Reconstructs signals from transforms of their frames, as torch.istft() documents it."""
    given = named_arguments(node)
    source, size = given["self"], given["n_fft"]
    _check_sizes(emitter, source)
    hop, length = given["hop_length"] or size // 4, given["win_length"] or size
    window = given["window"]
    if window is None:
        window = emitter.emit(_aten.full.default, [length], 1.0)
    window = _window(emitter, window, size, (size - length) // 2, 1.0)
    assert window is not None
    rank = source.meta["val"].dim()
    frames = emitter.emit(_aten.transpose.int, emitter.pair(source), rank - 2, rank - 1)
    frames = _inverse(emitter, frames, size, "ortho" if given["normalized"] else None)
    sums = _overlap(emitter, emitter.emit(_aten.mul.Tensor, frames, window), size, hop)
    # The sum of the windows of all frames.
    count = frames.meta["val"].shape[-2]
    squares = emitter.emit(_aten.expand.default, emitter.emit(_aten.mul.Tensor, window, window), [count, size])
    weights = _overlap(emitter, squares, size, hop)
    samples = size + hop * (count - 1)
    start = size // 2 if given["center"] else 0
    wanted = samples - 2 * start if given["length"] is None else given["length"]
    end = min(start + wanted, samples)
    sums, weights = (emitter.emit(_aten.slice.Tensor, each, -1, start, end) for each in (sums, weights))
    result = emitter.emit(_aten.mul.Tensor, sums, emitter.emit(_aten.reciprocal.default, weights))
    missing = wanted - (end - start)
    return emitter.emit(_aten.constant_pad_nd.default, result, [0, missing]) if missing else result


def _inverse(emitter: Emitter, pair: Node, size: int, norm: str | None) -> Node:
    """Returns the real signals [..., size] of spectra [..., frequencies, 2], of which only the half of a real
    signal is read.

    The real part A and the imaginary part B of a real signal's spectrum are even and odd. So the signal is the
    discrete Hartley transform of A - B, which is the difference of real and imaginary part of the Fourier transform
    of A - B (R. N. Bracewell, The Fourier Transform and Its Applications, chapter 19). The operator for spectra
    computes it.
    """
    value = pair.meta["val"]
    *outer, frequencies, _ = value.shape
    if value.dtype != torch.float32 or size < 1:
        raise emitter.unknown()
    used = size // 2 + 1
    if frequencies > used:
        pair = emitter.emit(_aten.slice.Tensor, pair, -2, 0, used)
    elif frequencies < used:
        pair = emitter.emit(_aten.constant_pad_nd.default, pair, [0, 0, 0, used - frequencies])
    even, odd = (emitter.part(pair, index) for index in (0, 1))
    # The imaginary parts of the first frequency, and of the last one of an even size, are zero for real signals.
    end = size - used + 1
    inner = emitter.emit(_aten.slice.Tensor, odd, -1, 1, end)
    odd = emitter.emit(_aten.constant_pad_nd.default, inner, [1, used - end])
    hartley = emitter.emit(_aten.sub.Tensor, even, odd)
    if end > 1:
        mirrored = emitter.emit(_aten.slice.Tensor, emitter.emit(_aten.add.Tensor, even, odd), -1, 1, end)
        mirrored = emitter.emit(_aten.flip.default, mirrored, [mirrored.meta["val"].dim() - 1])
        hartley = emitter.emit(_aten.cat.default, [hartley, mirrored], -1)
    signal = emitter.emit(_aten.reshape.default, hartley, [-1, size])
    window = _window(emitter, None, size, 0, _scale(_INVERSE_NORMS[norm], size))
    shape = (math.prod(outer), size)
    spectrum = Spectrum(emitter.node, signal, window, size, size, 0, False, 1, False, shape, False, True)
    result = emitter.emit(_aten.reshape.default, emitter.run(_own.stft.default, spectrum, (), False), [*shape, 2])
    parts = [emitter.part(result, index) for index in (0, 1)]
    return emitter.emit(_aten.reshape.default, emitter.emit(_aten.sub.Tensor, *parts), [*outer, size])


def _overlap(emitter: Emitter, frames: Node, size: int, hop: int) -> Node:
    """Returns overlap-add sums of frames [..., count, size] that are `hop` samples apart: [..., samples]."""
    parts = -(-size // hop)
    if size % hop:
        frames = emitter.emit(_aten.constant_pad_nd.default, frames, [0, parts * hop - size])
    *outer, count, _ = frames.meta["val"].shape
    total: Node | None = None
    # The first `hop` samples of all frames form a contiguous signal, and so do the next ones, `hop` samples later.
    for index in range(parts):
        part = emitter.emit(_aten.slice.Tensor, frames, -1, index * hop, (index + 1) * hop)
        part = emitter.emit(_aten.reshape.default, part, [*outer, count * hop])
        part = emitter.emit(_aten.constant_pad_nd.default, part, [index * hop, (parts - 1 - index) * hop])
        total = part if total is None else emitter.emit(_aten.add.Tensor, total, part)
    assert total is not None
    return total


def _signal(emitter: Emitter, x: Node, takes_pad: bool) -> tuple[Node, int, bool, float]:
    """Returns the source of frames: [signals, samples], pad, reflect, and a factor for all samples."""
    pad, reflect, factor = 0, False, 1.0
    samples = x.meta["val"].shape[-1]
    while x.op == "call_function" and x.args and isinstance(x.args[0], Node):
        source = x.args[0]
        value = source.meta["val"]
        if x.target in RESHAPES | SAME | {_aten.unsqueeze.default} and value.shape[-1:] == (samples,):
            pass
        elif x.target == _aten.pad.default and takes_pad and pad == 0 and _is_even_pad(x):
            pad, reflect = x.args[1][0], len(x.args) > 2 and x.args[2] == "reflect"
            samples -= 2 * pad
        elif x.target == _aten.mul.Tensor and _is_number(x.args[1]) and value.dtype == torch.float32:
            factor *= x.args[1]
        elif x.target == _aten.div.Tensor and _is_number(x.args[1]) and value.dtype == torch.float32:
            factor /= x.args[1]
        elif x.target != _aten.to.dtype or value.dtype != torch.int16:
            break
        x = source
    value = x.meta["val"]
    if value.dtype not in (torch.float32, torch.int16):
        dtype = str(value.dtype).removeprefix("torch.")
        raise UserError(
            f"{origin(emitter.node, emitter.path)}: a spectrum of {dtype} numbers has no form on a device; use float32."
        )
    if list(value.shape) != [value.numel() // max(samples, 1), samples]:
        x = emitter.emit(_aten.reshape.default, x, [-1, samples])
    return x, pad, reflect, factor


def _check_sizes(emitter: Emitter, x: Node) -> None:
    if not all(isinstance(size, int) for size in x.meta["val"].shape):
        raise UserError(
            f"{origin(emitter.node, emitter.path)}: a spectrum on a device is of a signal whose size is known at build "
            "time; leave it out of dynamic_shapes()."
        )


def _window(emitter: Emitter, window: Node | None, size: int, before: int, factor: float) -> Node | None:
    """Returns a window of `size` elements: the given one, padded with zeros on both sides, times a factor. None
    means ones.
    """
    if window is None:
        return None if factor == 1.0 else emitter.emit(_aten.full.default, [size], factor)
    missing = size - window.meta["val"].shape[0]
    if missing:
        window = emitter.emit(_aten.constant_pad_nd.default, window, [before, missing - before])
    return window if factor == 1.0 else emitter.emit(_aten.mul.Tensor, window, factor)


def _scale(norm: str | None, size: int) -> float:
    """Returns the factor of a forward transform."""
    return {"forward": 1 / size, "ortho": 1 / math.sqrt(size)}.get(norm or "", 1.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_even_pad(node: Node) -> bool:
    """Whether a node pads the last dimension equally on both sides, by reflection or with zeros."""
    given = named_arguments(node)
    amounts, mode = given["pad"], given["mode"]
    if len(amounts) != 2 or amounts[0] != amounts[1] or amounts[0] < 0:
        return False
    return mode == "reflect" or (mode == "constant" and not given["value"])


# Forward transforms of real signals.
FORWARD: dict[Any, Callable[[Emitter, Node], Spectrum]] = {
    _aten.stft.default: stft,
    _aten.stft.center: stft,
    _aten.fft_rfft.default: fft,
    _aten.fft_fft.default: fft,
}
