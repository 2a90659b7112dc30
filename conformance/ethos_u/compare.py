"""Runs what Vela made of a network on the model of the NPU, and the TOSA that Vela was given on its reference model."""

from pathlib import Path

import numpy
import torch
import tosa_reference_model

from conformance.ethos_u.networks import Network
from npu import ethos_u55, ethos_u85
from npu.device import engine_of
from npu.memory import Segments
from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import Payload, parse, parse_commands
from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.ethos_u import lower, model
from tools.pipeline.export.backends.ethos_u.vela import Compiled
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm

# All sizes of the NPU that there is a model of, by Vela's name.
CONFIGURATIONS = ethos_u55.CONFIGURATIONS | ethos_u85.CONFIGURATIONS

_PORT = {"burst_length": 32, "read_latency": 32, "write_latency": 32, "max_reads": 4, "max_writes": 4}


def npu(accelerator: str) -> Npu:
    """Returns an NPU of this configuration on a board with plenty of memory."""
    ports = {"axi0": {"memory": "Sram", "clock_scale": "1.0"}, "axi1": {"memory": "OffChipFlash", "clock_scale": "0.5"}}
    return Npu(
        accelerator=accelerator,
        memory_mode="shared_sram",
        clock_hz=500_000_000,
        ports={name: port | _PORT for name, port in ports.items()},
        arena_bytes=1 << 22,
        cache_bytes=0,
    )


def build(network: Network, accelerator: str) -> list[Compiled]:
    """Quantizes and compiles a network; fails if something of it would be left to the core."""
    torch.manual_seed(0)
    inputs = network.inputs()
    path = Path("networks.py")
    captured = fold_batch_norm(capture(network.make().eval(), inputs))
    quantized = lower.quantize(captured, [inputs], npu(accelerator), network.bits, path, State({}), False)
    captured = capture(quantized.module, inputs)
    lowered = lower.delegate(captured, npu(accelerator), path, [inputs], lambda found: found)
    assert not lowered.rejected, lowered.rejected
    assert lowered.compiled
    return lowered.compiled


def execute(payload: Payload, inputs: list[bytes], accelerator: str) -> model.Run:
    """Runs a payload on the model, with a memory to work in that holds anything before."""
    config, _ = engine_of(accelerator, Segments())
    found = parse_commands(payload.commands).config
    assert found == config, f"0x{found:x} is not {accelerator}"
    assert len(inputs) == len(payload.inputs)
    scratch = numpy.random.default_rng(7).integers(0, 256, payload.scratch_size).astype(numpy.uint8)
    return model.execute(payload, inputs, accelerator, scratch)


def check(compiled: Compiled, accelerator: str, bits: int) -> model.Run:
    """Holds the model to the reference model on random inputs; returns what it did."""
    payload = parse(compiled.payload)
    generator = numpy.random.default_rng(11)
    dtype = numpy.dtype(f"int{bits}")
    limits = numpy.iinfo(dtype)
    arrays = []
    for shape, _ in delegates.inputs_of(compiled.tosa):
        arrays.append(generator.integers(limits.min, limits.max + 1, shape).astype(dtype))
    expected, status = tosa_reference_model.run(compiled.tosa, arrays, verbosity="LOW")
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID
    run = execute(payload, [array.tobytes() for array in arrays], accelerator)
    for index, (got, array) in enumerate(zip(run.outputs, expected, strict=True)):
        values = numpy.frombuffer(got, array.dtype)
        wrong = int((values != array.ravel()).sum())
        assert wrong == 0, f"output {index}: {wrong} of {array.size} elements differ"
        assert array.size == 1 or array.min() < array.max(), f"output {index}: all of it is {array.flat[0]}"
    return run
