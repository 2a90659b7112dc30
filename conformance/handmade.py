"""Calls of operators that PyTorch's database of samples does not show, by the arguments of the functional operators."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from conformance.operators import DTYPES

Arguments = dict[str, Any]

_QUANTIZED = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int16: (-32768, 32767), torch.int32: (-1000, 1000)}
_CHANNELS_LAST = [0, 2, 3, 1]


def _numbers(*shape: int) -> Tensor:
    """Floats that integers of 8 bits tell apart."""
    return torch.randn(shape) * 20


def _image() -> Tensor:
    return _numbers(2, 3, 4, 5)


def _own_calls() -> Iterator[tuple[str, Arguments]]:
    """Operators of tools/pipeline/export/rewrite/own_operators.py that take more than one dtype."""
    for kernel, stride, padding, dilation, ceil in ((2, 2, 0, 1, False), (3, 1, 1, 1, True), (2, 1, 0, 2, False)):
        sizes = {"kernel_size": [kernel] * 2, "stride": [stride] * 2, "padding": [padding] * 2}
        options = {"dilation": [dilation] * 2, "ceil_mode": ceil}
        yield "torch_fusion::max_pool2d.out", {"self": _numbers(2, 3, 6, 7), **sizes, **options}


def recurrent_calls() -> Iterator[tuple[str, Arguments]]:
    """Yields recurrent layers of 3 inputs and 4 hidden values: the export decomposes other dtypes than float32."""
    for gates, name, states in ((4, "lstm", ("hidden0", "cell0")), (3, "gru", ("hidden0",))):
        for has_state, reverse, batch_first in ((False, False, False), (True, True, False), (True, False, True)):
            yield (
                f"torch_fusion::{name}.out",
                {
                    "input": torch.randn((2, 5, 3) if batch_first else (5, 2, 3)),
                    **{state: torch.randn(2, 4) if has_state else None for state in states},
                    "input_weight": torch.randn(4 * gates, 3) / 2,
                    "hidden_weight": torch.randn(4 * gates, 4) / 2,
                    "bias": torch.randn(16) if has_state else None,
                    "reverse": reverse,
                    "batch_first": batch_first,
                },
            )


def portable_calls() -> Iterator[tuple[str, Arguments]]:
    """Calls with float32 or int64 tensors, which are to be tried with every dtype."""
    for x in (_numbers(7), _image()):
        yield "aten::_conj_physical.out", {"self": x}
        yield "et_copy::_h2d_copy.out", {"self": x}
        yield "et_copy::_d2h_copy.out", {"self": x}
        yield "aten::fill.Tensor_out", {"self": x, "value": torch.tensor(3.0)}
        yield "aten::view_as_real_copy.out", {"self": x}
        for other in (3, -7, 2.5):
            yield "aten::fmod.Scalar_out", {"self": x, "other": other}
            for mode in (None, "floor", "trunc"):
                yield "aten::div.Scalar_mode_out", {"self": x, "other": other, "rounding_mode": mode}
    integers = torch.arange(-40, 40, 3)
    for name in ("and", "or", "xor"):
        for number in (6, -3, True):
            yield f"aten::bitwise_{name}.Scalar_out", {"self": integers, "other": number}
    for name in ("left", "right"):
        for number in (0, 3, 7):
            yield f"aten::bitwise_{name}_shift.Tensor_Scalar_out", {"self": integers, "other": number}
    yield from _norm_calls()
    yield from _resampling_calls()
    yield from _backward_calls()
    yield from _copy_calls()
    yield from _own_calls()
    for dims, unbiased, keepdim in (([0], True, False), ([1, 3], False, True), (None, True, False), ([-1], True, True)):
        yield "aten::var.out", {"self": _image(), "dim": dims, "unbiased": unbiased, "keepdim": keepdim}
    for p in (0.5, 0.0, 1.0):
        yield "aten::native_dropout.out", {"input": _image(), "p": p, "train": True}
    for source, dim, start, end, step in (
        ((2, 3, 2, 5), 2, 1, 3, 1),
        ((2, 3, 4, 2), -1, 0, None, 3),
        ((0, 3, 4, 5), 0, 2, 9, 1),
    ):
        arguments = {"self": _image(), "src": _numbers(*source), "dim": dim, "start": start, "end": end, "step": step}
        yield "aten::slice_scatter.out", arguments
    for bias in (None, _numbers(4)):
        yield "aten::linear.out", {"input": _numbers(2, 3, 5), "weight": _numbers(4, 5), "bias": bias}


def _norm_calls() -> Iterator[tuple[str, Arguments]]:
    # An input of 16 bits may have weights of float32.
    half = _image().half()
    for weight, bias in ((_numbers(3), _numbers(3)), (_numbers(3), None), (_numbers(3).half(), _numbers(3).half())):
        parameters = {"input": half, "weight": weight, "bias": bias}
        numbers = {"N": 2, "C": 3, "HxW": 20, "group": 3, "eps": 1e-5}
        yield "aten::native_group_norm.out", {**parameters, **numbers}
        affine = {name: None if value is None else value[:1].repeat(5) for name, value in list(parameters.items())[1:]}
        yield "aten::native_layer_norm.out", {"input": half, **affine, "normalized_shape": [5], "eps": 1e-5}
        options = {**parameters, "momentum": 0.1, "eps": 1e-5}
        yield "aten::_native_batch_norm_legit.no_stats_out", {**options, "training": True}
        running = {
            "running_mean": _numbers(3).to(weight.dtype),
            "running_var": (_numbers(3).abs() + 1).to(weight.dtype),
        }
        yield "aten::_native_batch_norm_legit_no_training.out", {**options, **running}
        yield "aten::_native_batch_norm_legit.out", {**options, **running, "training": True}
    for affine in (True, False):
        yield (
            "aten::_native_batch_norm_legit_no_training.out",
            {
                "input": _image(),
                "weight": _numbers(3) if affine else None,
                "bias": _numbers(3) if affine else None,
                "running_mean": _numbers(3),
                "running_var": _numbers(3).abs() + 1,
                "momentum": 0.1,
                "eps": 1e-5,
            },
        )


def _resampling_calls() -> Iterator[tuple[str, Arguments]]:
    for size, align in (([7, 9], False), ([7, 9], True), ([2, 3], False), ([4, 5], True)):
        arguments = {"align_corners": align, "output_size": size}
        # Eager copies a tensor of any dtype that keeps its size.
        if size != [4, 5]:
            scales = {"scales_h": None, "scales_w": None}
            yield "aten::_upsample_bilinear2d_aa.out", {"self": _image(), **scales, **arguments}
        yield "aten::upsample_bilinear2d.vec_out", {"input": _image(), "scale_factors": None, **arguments}
        yield "aten::upsample_nearest2d.vec_out", {"input": _image(), "output_size": size, "scale_factors": None}
    for factors in ([2.0, 3.0], [0.6, 1.7]):
        arguments = {"input": _image(), "output_size": None, "scale_factors": factors}
        yield "aten::upsample_nearest2d.vec_out", arguments
        for align in (False, True):
            yield "aten::upsample_bilinear2d.vec_out", {**arguments, "align_corners": align}


def _backward_calls() -> Iterator[tuple[str, Arguments]]:
    # The sizes of the gradient, of the input and of the weight; stride, padding, groups.
    layers = [
        ((2, 4, 3, 4), (2, 3, 5, 6), (4, 3, 3, 3), 1, 0, 1),
        ((1, 4, 3, 3), (1, 2, 5, 5), (4, 1, 3, 3), 2, 1, 2),
        ((2, 4, 5), (2, 3, 5), (4, 3, 3), 1, 1, 1),
    ]
    for gradient, image, weight, stride, padding, groups in layers:
        rank = len(image) - 2
        for mask in ([True, True, True], [True, False, False]):
            yield (
                "aten::convolution_backward.out",
                {
                    "grad_output": _numbers(*gradient) / 20,
                    "input": _numbers(*image) / 20,
                    "weight": _numbers(*weight) / 20,
                    "bias_sizes": [weight[0]],
                    "stride": [stride] * rank,
                    "padding": [padding] * rank,
                    "dilation": [1] * rank,
                    "transposed": False,
                    "output_padding": [0] * rank,
                    "groups": groups,
                    "output_mask": mask,
                },
            )


def _copy_calls() -> Iterator[tuple[str, Arguments]]:
    for order in (None, [0, 1, 2, 3], _CHANNELS_LAST):
        for x in (_image(), _image().contiguous(memory_format=torch.channels_last)):
            yield "dim_order_ops::_clone_dim_order.out", {"self": x, "dim_order": order}
            yield "dim_order_ops::_to_dim_order_copy.out", {"self": x, "dim_order": order}
        yield "dim_order_ops::_empty_dim_order.out", {"size": [2, 3, 4, 5], "dim_order": order}
    for dtype in DTYPES:
        yield "dim_order_ops::_to_dim_order_copy.out", {"self": _numbers(9), "dtype": dtype, "dim_order": [0]}
        yield "aten::_to_copy.out", {"self": _numbers(9), "dtype": dtype}


def quantized_calls() -> Iterator[tuple[str, Arguments]]:
    """Calls of quantized operators, with each dtype that their definitions name."""
    for dtype, (low, high) in _QUANTIZED.items():
        yield from _affine_calls(dtype, low, high)
    for dtype in (torch.int8, torch.uint8):
        low, high = _QUANTIZED[dtype]
        yield from _parameter_calls(dtype, low, high)
        yield from _embedding_calls(dtype, low, high)
        a, b = (torch.randint(low, high + 1, (3, 4), dtype=dtype) for _ in range(2))
        numbers = {"quant_min": low, "quant_max": high}
        arguments: Arguments = {}
        for name, scale, zero_point in (("a", 0.1, 3), ("b", 0.25, -2), ("out", 0.3, 1)):
            zero_point = max(low, zero_point)
            arguments |= {f"{name}_scale": scale, f"{name}_zero_point": zero_point}
            arguments |= {f"{name}_{key}": value for key, value in numbers.items()}
        yield "quantized_decomposed::add.out", {"a": a, "b": b, **arguments}
    for dtype in (torch.float32, torch.float16):
        weight = torch.randint(-128, 128, (6, 5), dtype=torch.int8)
        x, scales = (_numbers(*shape).to(dtype) / 20 for shape in ((3, 5), (6,)))
        arguments = {"input": x, "weight_zero_points": None}
        linear = {"weight": weight, "weight_scales": scales, "dtype": None}
        yield "quantized_decomposed::mixed_linear.out", {**arguments, **linear}
        wide = {"weight": weight.t().contiguous(), "weight_scales": _numbers(5).to(dtype) / 20}
        yield "quantized_decomposed::mixed_mm.out", {**arguments, **wide}


def _affine_calls(dtype: torch.dtype, low: int, high: int) -> Iterator[tuple[str, Arguments]]:
    scope = "quantized_decomposed::"
    limits = {"quant_min": low, "quant_max": high, "dtype": dtype}
    integers = torch.randint(low, high + 1, (3, 4), dtype=dtype)
    for x in (_numbers(3, 4), _image(), torch.tensor([0.5, 1.5, -2.5, 1e9, -1e9]), _numbers(3, 4).half()):
        yield scope + "quantize_per_tensor.out", {"input": x, "scale": 0.5, "zero_point": 3, **limits}
        tensors = {"scale": torch.tensor([0.25], dtype=torch.float64), "zero_point": torch.tensor([2])}
        yield scope + "quantize_per_tensor.Tensor_out", {"input": x, **tensors, **limits}
    for out_dtype in (None, torch.float32, torch.float16, torch.bfloat16):
        arguments = {"input": integers, "out_dtype": out_dtype, **limits}
        yield scope + "dequantize_per_tensor.out", {"scale": 0.5, "zero_point": 3, **arguments}
        yield scope + "dequantize_per_tensor.Tensor_out", {**tensors, **arguments}
    for axis, count in ((0, 3), (1, 4), (-1, 4)):
        scales = torch.rand(count, dtype=torch.float64) + 0.1
        channels = {"scales": scales, "zero_points": torch.arange(count), "axis": axis, **limits}
        yield scope + "quantize_per_channel.out", {"input": _numbers(3, 4), **channels}
        yield scope + "dequantize_per_channel.out", {"input": integers, **channels}
        yield scope + "dequantize_per_channel.out", {"input": integers, **channels, "zero_points": None}
    tokens = {"scales": torch.rand(3, 1, dtype=torch.float64) + 0.1, "zero_points": torch.tensor([[1], [0], [2]])}
    yield scope + "quantize_per_token.out", {"input": _numbers(3, 4), **tokens, **limits}
    yield scope + "dequantize_per_token.out", {"input": integers, **tokens, **limits, "output_dtype": torch.float32}


def _parameter_calls(dtype: torch.dtype, low: int, high: int) -> Iterator[tuple[str, Arguments]]:
    for x in (_numbers(3, 4), _image(), torch.full((3,), 2.0), -_numbers(3, 4).abs()):
        limits = {"quant_min": low, "quant_max": high, "dtype": dtype, "eps": 1e-6}
        yield "quantized_decomposed::choose_qparams.Tensor_out", {"input": x, **limits}
        yield "quantized_decomposed::choose_qparams_per_token_asymmetric.out", {"input": x, "dtype": torch.int8}


def _embedding_calls(dtype: torch.dtype, low: int, high: int) -> Iterator[tuple[str, Arguments]]:
    indices = torch.tensor([[0, 2], [5, 2]])
    scope = "quantized_decomposed::embedding_"
    weight = torch.randint(low, high + 1, (6, 8), dtype=dtype)
    for shape in ((6,), (6, 2)):
        scales, zeros = torch.rand(shape) + 0.1, torch.randint(-3, 4, shape).float()
        for zero_points in (zeros, None):
            arguments = {"weight_scales": scales, "weight_zero_points": zero_points, "indices": indices}
            limits = {"weight_quant_min": low, "weight_quant_max": high}
            yield scope + "byte.out", {"weight": weight, **arguments, **limits}
            yield scope + "byte.dtype_out", {"weight": weight, **arguments, **limits, "dtype": torch.float16}
            for bits in (2, 4) if dtype == torch.uint8 else ():
                limits = {"weight_quant_min": -(2 ** (bits - 1)), "weight_quant_max": 2 ** (bits - 1) - 1}
                yield scope + f"{bits}bit.out", {"weight": weight, **arguments, **limits}
                yield scope + f"{bits}bit.dtype_out", {"weight": weight, **arguments, **limits, "dtype": torch.float16}
