"""Every operator that Vela emits gives the integers of the TOSA reference model, on the model of the NPU.

The device's check of commands takes all of them, and needs all of their memory.

`ACCELERATORS`: "each" runs all networks on all configurations; otherwise every network runs on one of them, in turn.
"""

import os
from pathlib import Path

import pytest

from conformance.ethos_u.compare import CONFIGURATIONS, build, check
from conformance.ethos_u.device_check import check_edges
from conformance.ethos_u.networks import NETWORKS
from tools.artifacts.ethos_u.payload import parse

_CHECKER = Path(os.environ["CHECKER"])


def _cases() -> list[tuple[str, str]]:
    cases = []
    for index, (name, network) in enumerate(NETWORKS.items()):
        able = [accelerator for accelerator in CONFIGURATIONS if "u85" in accelerator or not network.u85_only]
        chosen = able if os.environ.get("ACCELERATORS") == "each" else [able[index % len(able)]]
        cases += [(name, accelerator) for accelerator in chosen]
    return cases


@pytest.mark.parametrize(("name", "accelerator"), _cases())
def test_operator(name: str, accelerator: str) -> None:
    network = NETWORKS[name]
    for compiled in build(network, accelerator):
        check(compiled, accelerator, network.bits)
        check_edges(_CHECKER, parse(compiled.payload), accelerator)
