"""Operators that are compiled to C++ compute to the bit what loaded programs do."""

import os
import re
from pathlib import Path

from conformance.compiled import compare
from tools.verify.run_pte.cases import Runner

# The build refuses these, 34 of all 6,106 calls: kernels that take no other order of dimensions than the default one,
# and dtypes that they don't compute.
_ORDER = "tensors that are not contiguous (a memory format such as channels_last)"
_REFUSED = {
    "aten::_cdist_forward.out": {_ORDER},
    "aten::_upsample_bilinear2d_aa.out": {_ORDER, "dtype Byte"},
    "aten::convolution_backward.out": {_ORDER},
    "aten::grid_sampler_2d.out": {_ORDER},
    "aten::max_pool2d_with_indices_backward.grad_input": {_ORDER},
    "aten::native_group_norm.out": {_ORDER},
    "aten::native_layer_norm.out": {_ORDER},
    "aten::tril.out": {_ORDER},
    "aten::triu.out": {_ORDER},
    "aten::upsample_bilinear2d.vec_out": {_ORDER, "dtype Byte"},
    "aten::upsample_nearest2d.vec_out": {_ORDER},
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out": {_ORDER},
}


def test_outputs_are_the_runtimes() -> None:
    failures, counts = compare(
        Path(os.environ["INDEX"]), Path(os.environ["PROGRAM"]), Runner(Path(os.environ["RUNNER"]), None, Path())
    )
    print("\n".join([*failures, *(f"{count}: {reason}" for reason, count in counts.items())]))
    assert counts.pop("compared") > 0
    for reason in counts:
        match = re.fullmatch(r"the kernel of operator (\S+) does not support (.*)", reason)
        assert match is not None and match[2] in _REFUSED.get(match[1], ()), reason
    assert not failures
