"""Quantization-aware training for the Cortex-M backend: PyTorch 2 export quantization with fake quantization.

ExecuTorch's CortexMQuantizer observes; it has neither fake quantization nor batch normalization that still trains.
quantizer() has both. This module needs nothing but the `executorch` package, so that a training script can import it
with this repository in its PYTHONPATH; see docs/quantize.md.
"""

from __future__ import annotations

import dataclasses

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.quantization_configs import CortexMQuantizationConfig
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.quantizer_reporter import QuantizerInfo
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import (
    FusedMovingAvgObsFakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import QuantizationSpec, Quantizer

from tools.pipeline.export.cortex_m.functions import evenly_bounded

_aten = torch.ops.aten
# What is fused into the layer before it.
_ACTIVATIONS = (
    _aten.relu.default,
    _aten.relu_.default,
    _aten.hardtanh.default,
    _aten.hardtanh_.default,
    _aten.clamp.default,
    _aten.clamp_.default,
)


def quantizer() -> CortexMQuantizer:
    """A CortexMQuantizer for `prepare_qat_pt2e`: the same schemes, with fake quantization.

    A convolution, the batch normalization after it and their activation are quantized together: batch normalization
    trains, and `convert_pt2e` folds it.
    """
    result = CortexMQuantizer()
    per_channel, per_tensor, shared = result.quantizers
    for part in (per_channel, per_tensor):
        part.quantization_config = _with_fake_quantization(part.quantization_config)
    result.quantizers = [_BatchNormQuantizer(per_channel.quantization_config), per_channel, per_tensor, shared]
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


class _BatchNormQuantizer(Quantizer):
    """Annotates convolutions that a batch normalization follows."""

    def __init__(self, config: CortexMQuantizationConfig) -> None:
        self._config = config

    def annotate(self, model: GraphModule) -> GraphModule:
        for norm in model.graph.nodes:
            layer = norm.args[0] if norm.target == _aten.batch_norm.default else None
            if not isinstance(layer, Node) or layer.target != _aten.conv2d.default or len(layer.users) != 1:
                continue
            users = list(norm.users)
            is_fused = len(users) == 1 and users[0].target in _ACTIVATIONS
            image, weight = layer.args[:2]
            operands = {
                image: self._config.get_input_act_qspec(layer, image),
                weight: self._config.get_weight_qspec(layer),
            }
            output = self._config.get_output_act_qspec(layer)
            _mark_node_as_quantized(layer, operands, None, True)
            _mark_node_as_quantized(norm, {}, None if is_fused else output, True)
            if is_fused:
                _mark_node_as_quantized(users[0], {}, output, True)
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to check: what is not annotated stays in floating point, and the build says so."""

    def get_quantizer_info(self) -> QuantizerInfo:
        """What ExecuTorch's report of quantizers asks of each."""
        return QuantizerInfo(
            "Batch normalization", "convolutions with batch normalization", self._config.label, __name__
        )
