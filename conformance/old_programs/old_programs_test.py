"""Programs of earlier ExecuTorch releases load and run, on this machine and on an emulated Cortex-M4."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import read_runners
from tools.verify.run_pte.values import encode

FOLDER = Path(__file__).absolute().parent
RUNNERS = read_runners().boards
# A folder has no program whose bytes the release before wrote: 0.5.0, 0.7.0, 1.0.1, 1.1.0 and 1.4.0 have no others.
RELEASES = ["0.2.1", "0.3.0", "0.4.0", "0.6.0", "1.0.0", "1.2.0", "1.5.1"]
MODELS = {"add", "scale", "softmax", "mlp", "cnn", "dynamic"}
FLOAT = 6


def programs(release: str) -> Iterator[tuple[str, Case, np.ndarray]]:
    """Reads, per program of a release, its name, the program with its inputs, and eager's results."""
    with np.load(FOLDER / "golden.npz") as golden:
        arrays = dict(golden)
    for path in sorted((FOLDER / release).glob("*.pte")):
        model = path.stem.partition("_")[0]
        names = sorted(name for name in arrays if name.startswith(f"{model}_input_"))
        inputs = tuple(encode(arrays[name], FLOAT, range(arrays[name].ndim)) for name in names)
        yield path.stem, Case(path.read_bytes(), inputs), arrays[f"{model}_output"]


@pytest.mark.parametrize("board", ["host", "mps2_an386"])
@pytest.mark.parametrize("release", RELEASES)
def test_programs_of_a_release_run(release: str, board: str) -> None:
    if board not in RUNNERS:
        pytest.skip("there is no compiler for this machine")
    names, cases, expected = zip(*programs(release), strict=True)
    assert release != RELEASES[0] or {name.partition("_")[0] for name in names} == MODELS
    for name, result, array in zip(names, run_cases(RUNNERS[board], cases), expected, strict=True):
        assert result.error == "Ok", f"{name}: {result.text()}"
        np.testing.assert_allclose(result.outputs[0].array, array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_constants_lie_in_either_place() -> None:
    """The set shows constants inside the program and in a segment behind it (the extended header `eh00`)."""
    segment, inline = ((FOLDER / f"0.2.1/mlp_{place}.pte").read_bytes() for place in ("segment", "inline"))
    assert segment[8:12] == b"eh00"
    assert len(segment) > 4096 > len(inline) > 4 * (4 * 8 + 8 * 2)


def test_a_dynamic_program_takes_smaller_inputs() -> None:
    x = np.linspace(-1, 1, 5, dtype=np.float32).reshape(1, 5)
    given = (encode(x, FLOAT, (0, 1)),)
    releases = [release for release in RELEASES if (FOLDER / release / "dynamic.pte").exists()]
    cases = [Case((FOLDER / release / "dynamic.pte").read_bytes(), given) for release in releases]
    for release, result in zip(releases, run_cases(RUNNERS["mps2_an386"], cases), strict=True):
        assert result.error == "Ok", f"{release}: {result.text()}"
        np.testing.assert_allclose(result.outputs[0].array, np.exp(x) / np.exp(x).sum(), rtol=1e-5)
