"""Runs a program with the runtime in ExecuTorch's wheel: `runtime.py FILE.pte INPUTS.npz OUTPUTS.npz`.

Both files have arrays `<sample>_<index>` in the shapes of the program. INPUTS.npz also has `samples`, how many there
are, and `order_<index>`, the order of an input's dimensions in memory.
"""

import sys

import numpy as np
import torch

# executorch.runtime wraps this, without the exporter, whose import takes seconds; and kernels of quantized operators.
from executorch.extension.pybindings.portable_lib import _load_for_executorch
from executorch.kernels import quantized as _quantized  # noqa: F401


def _tensor(array: np.ndarray, order: list[int]) -> torch.Tensor:
    """Returns the array as a tensor with this order in memory."""
    return torch.from_numpy(np.asarray(array.transpose(order), order="C")).permute(np.argsort(order).tolist())


def main(program: str, inputs: str, outputs: str) -> None:
    module = _load_for_executorch(program)
    results: dict[str, np.ndarray] = {}
    with np.load(inputs) as arrays:
        orders = [arrays[name].tolist() for name in arrays if name.startswith("order_")]
        for sample in range(int(arrays["samples"])):
            given = [_tensor(arrays[f"{sample}_{index}"], order) for index, order in enumerate(orders)]
            for index, tensor in enumerate(module.forward(given)):
                results[f"{sample}_{index}"] = tensor.numpy()
    np.savez(outputs, **results)


if __name__ == "__main__":
    main(*sys.argv[1:4])
