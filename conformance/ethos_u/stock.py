"""Writes a program for an Ethos-U as ExecuTorch's own tools make it, with nothing of this project, and an example."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tools.quiet.console import Console, run_quietly


def _export(accelerator: str, io: str, program: Path, examples: Path) -> None:
    # Imported here: they print while they are.
    import numpy as np
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import (
        EthosUQuantizer,
        get_symmetric_quantization_config,
        get_uint8_io_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.head = torch.nn.Linear(16 * 16, 5)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            features = torch.relu(self.convolution(image))
            # The partitioner leaves this to the core.
            both = torch.cat([features, torch.flip(features, (2,))], 1)
            return self.head(torch.nn.functional.max_pool2d(both, 2, 2).flatten(1))

    samples = [(torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(4)]
    spec = EthosUCompileSpec(accelerator)
    quantizer = EthosUQuantizer(spec)
    quantizer.set_global(get_symmetric_quantization_config())
    if io == "uint8":
        quantizer.set_io(get_uint8_io_quantization_config())
    captured = torch.export.export(Network().eval(), samples[0])
    prepared = prepare_pt2e(captured.module(check_guards=False), quantizer)
    for sample in samples:
        prepared(*sample)
    quantized = convert_pt2e(prepared)
    lowered = to_edge_transform_and_lower(
        torch.export.export(quantized, samples[0]), partitioner=[EthosUPartitioner(spec)]
    )
    with torch.no_grad():
        pairs = {"input_0": samples[0][0], "output_0": quantized(*samples[0])}
    if io == "uint8":
        inputs, outputs = QuantizeInputs(lowered, [0]), QuantizeOutputs(lowered, [0])
        lowered = lowered.transform([inputs, outputs])
        for name, found in (("input_0", inputs.quant_args), ("output_0", outputs.dequant_args)):
            scale, zero_point = found[0][:2]
            pairs[name] = ((pairs[name] / scale).round() + zero_point).clamp(0, 255).to(torch.uint8)
    program.write_bytes(lowered.to_executorch().buffer)
    np.savez(examples, **{name: tensor.numpy() for name, tensor in pairs.items()})


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="stock", description=__doc__)
    parser.add_argument("--accelerator", required=True, help="such as ethos-u55-128")
    parser.add_argument("--io", choices=["float32", "uint8"], required=True, help="dtype of inputs and outputs")
    parser.add_argument("--program", type=Path, required=True, help="where the .pte is written")
    parser.add_argument("--examples", type=Path, required=True, help="where input_0 and output_0 are written (.npz)")
    parser.add_argument("--log", type=Path, required=True, help="where what torch and ExecuTorch print is written")
    arguments = parser.parse_args(argv)

    def step(_: Console) -> None:
        _export(arguments.accelerator, arguments.io, arguments.program, arguments.examples)

    return run_quietly(step, arguments.log, "stock")
