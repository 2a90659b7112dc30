"""Quantization-aware training for the Cortex-M backend: PyTorch 2 export quantization with fake quantization.

ExecuTorch's CortexMQuantizer observes; it has neither fake quantization nor batch normalization that still trains.
quantizer() has both, and weights of four bits. This module needs nothing but the `executorch` package, so that a
training script can import it with this repository in its PYTHONPATH; see docs/quantize.md.
"""

import dataclasses

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.quantization_configs import CortexMQuantizationConfig
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.quantizer_reporter import QuantizerInfo
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import (
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import QuantizationSpec, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.backends.cortex_m.int4 import (
    DTYPES,
    GROUP_SIZES,
    LARGEST,
    LEAST,
    dequantize_integers,
    is_pointwise,
    round_to_int4,
)
from tools.pipeline.export.ir.operators import CLAMPS
from tools.pipeline.export.quantize.annotations import evenly_bounded
from tools.pipeline.export.quantize.nodes import attribute

_aten = torch.ops.aten


def quantizer(weight_dtype: str = "int8", group_size: int = GROUP_SIZES[0]) -> CortexMQuantizer:
    """Returns a CortexMQuantizer for `prepare_qat_pt2e`: the same schemes, with fake quantization.

    A convolution, the batch normalization after it and their activation are quantized together: batch normalization
    trains, and `convert_pt2e` folds it.

    Args:
      weight_dtype: `int8`, or `int4`: linear layers and 1x1 convolutions have 4-bit weights.
      group_size: the number of inputs that share a scale of int4 weights, 32; 0: all inputs of a channel do. Layers
        with batch normalization always have one scale per channel.

    Raises ValueError for others.
    """
    if weight_dtype not in DTYPES or group_size not in GROUP_SIZES:
        raise ValueError(
            f"weight_dtype = {weight_dtype!r}, group_size = {group_size!r}: the first must be one of "
            f"{', '.join(DTYPES)}, the second one of {', '.join(map(str, GROUP_SIZES))}."
        )
    result = CortexMQuantizer()
    per_channel, per_tensor, shared = result.quantizers
    for part in (per_channel, per_tensor):
        part.quantization_config = _with_fake_quantization(part.quantization_config)
    result.quantizers = [_ConvolutionQuantizer(per_channel.quantization_config), per_channel, per_tensor, shared]
    if weight_dtype == "int4":
        result.quantizers.append(_Int4Quantizer(group_size))
    return result


def _with_fake_quantization(config: CortexMQuantizationConfig) -> CortexMQuantizationConfig:
    return dataclasses.replace(
        config,
        input_activation=_fake(config.input_activation),
        output_activation=_fake(config.output_activation),
        weight=_fake(evenly_bounded(config.weight)),
    )


def _fake(spec: QuantizationSpec) -> QuantizationSpec:
    observer = MovingAverageMinMaxObserver if spec.ch_axis is None else MovingAveragePerChannelMinMaxObserver
    constructor = FusedMovingAvgObsFakeQuantize.with_args(observer=observer)
    return dataclasses.replace(spec, observer_or_fake_quant_ctr=constructor)


class _ConvolutionQuantizer(Quantizer):
    """Annotates convolutions with the batch normalization and the activation that follow, in any order of dimensions.

    ExecuTorch's quantizer has no batch normalization and skips convolutions of channels-first images; the exporter
    changes the order of images itself.
    """

    def __init__(self, config: CortexMQuantizationConfig) -> None:
        self._config = config

    def annotate(self, model: GraphModule) -> GraphModule:
        for layer in model.graph.nodes:
            if layer.target != _aten.conv2d.default:
                continue
            fused = [layer]
            for targets in ((_aten.batch_norm.default,), CLAMPS):
                users = list(fused[-1].users)
                if len(users) == 1 and users[0].target in targets:
                    fused += users
            image, weight = layer.args[:2]
            operands = {
                image: self._config.get_input_act_qspec(layer, image),
                weight: self._config.get_weight_qspec(layer),
            }
            for node in fused:
                output = self._config.get_output_act_qspec(layer) if node is fused[-1] else None
                _mark_node_as_quantized(node, operands if node is layer else {}, output, True)
        return model

    def validate(self, model: GraphModule) -> None:
        """Checks nothing: nodes without annotations stay in floating point, and the build reports them."""

    def get_quantizer_info(self) -> QuantizerInfo:
        """Describes the quantizer for ExecuTorch's report."""
        return QuantizerInfo(
            "Convolutions", "convolutions with batch normalization and activations", self._config.label, __name__
        )


class _Int4Quantizer(Quantizer):
    """Gives layers that other quantizers have annotated 4-bit weights, where kernels support them."""

    def __init__(self, group_size: int) -> None:
        self._group_size = group_size

    def annotate(self, model: GraphModule) -> GraphModule:
        for layer in model.graph.nodes:
            annotation = layer.meta.get(Q_ANNOTATION_KEY)
            if annotation is None or layer.target not in (_aten.conv2d.default, _aten.linear.default):
                continue
            weight, *bias = layer.args[1:3]
            if layer.target == _aten.conv2d.default and not is_pointwise(layer, weight.meta["val"]):
                continue
            has_batch_norm = any(user.target == _aten.batch_norm.default for user in layer.users)
            in_groups = self._group_size and not has_batch_norm and weight.meta["val"][0].numel() > self._group_size
            annotation.input_qspec_map[weight] = _in_groups(self._group_size) if in_groups else _PER_CHANNEL
            # A bias has the scale of the sums, which the build determines.
            for operand in bias:
                annotation.input_qspec_map.pop(operand, None)
        return model

    def validate(self, model: GraphModule) -> None:
        """Checks nothing: layers without such kernels keep 8-bit weights."""

    def get_quantizer_info(self) -> QuantizerInfo:
        """Describes the quantizer for ExecuTorch's report."""
        return QuantizerInfo("int4 weights", "linear layers and convolutions of one by one", "int4", __name__)


_PER_CHANNEL = QuantizationSpec(
    dtype=torch.int8,
    observer_or_fake_quant_ctr=FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver),
    quant_min=LEAST,
    quant_max=LARGEST,
    qscheme=torch.per_channel_symmetric,
    ch_axis=0,
)


def _in_groups(group_size: int) -> QuantizationSpec:
    constructor = _GroupFakeQuantize.with_args(group_size=group_size)
    return dataclasses.replace(_PER_CHANNEL, observer_or_fake_quant_ctr=constructor)


class _GroupFakeQuantize(FakeQuantizeBase):
    """Rounds weights to int4 with a scale per group of inputs; gradients pass as if they were not rounded.

    Args:
      group_size: the number of inputs that share a scale.
      specification: fields of QuantizationSpec, which torchao passes to all constructors.
    """

    def __init__(self, group_size: int, **specification: object) -> None:
        super().__init__()
        self._group_size = group_size

    def forward(self, weight: Tensor) -> Tensor:
        """Returns the weights [out, in, ...], rounded."""
        with torch.no_grad():
            integers, scales = round_to_int4(weight.flatten(1), self._group_size)
            rounded = (integers * scales[:, None]).reshape(weight.shape)
        return weight + (rounded - weight).detach()

    def calculate_qparams(self, **_: object) -> tuple[Tensor, Tensor]:
        """Raises an error: one scale and zero point can't represent groups, so that convert() is called instead."""
        raise NotImplementedError("weights in groups are converted by convert()")

    def convert(self, model: GraphModule, node: Node) -> None:
        """Replaces a node of `model` that calls this module by its integers; called by convert_pt2e()."""
        (operand,) = node.all_input_nodes
        weight = attribute(model, str(operand.target)).detach()
        integers, scales = round_to_int4(weight.flatten(1), self._group_size)
        with model.graph.inserting_before(node):
            dequantized = dequantize_integers(model, node.name, integers.reshape(weight.shape), scales)
        dequantized.meta = {"val": operand.meta.get("val")}
        node.replace_all_uses_with(dequantized)
        model.graph.erase_node(node)
