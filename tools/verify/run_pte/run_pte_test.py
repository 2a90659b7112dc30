import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tools.verify.run_pte.run_pte import main, read_runners
from tools.verify.run_pte.values import Value, encode, read_value

BOARDS = sorted(read_runners().boards)


def _files(model: str) -> dict[str, Path]:
    """Returns a model's program and golden file, by suffix."""
    return {
        Path(name).suffix: Path(name).absolute() for name in os.environ[model].split() if not name.endswith(".json")
    }


MODELS = {model: _files(model) for model in ("SOFTMAX", "ADD_INT32", "PHYTO_CNN")}
SOFTMAX = MODELS["SOFTMAX"][".pte"]


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    status = main([*map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def _error(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, str]:
    status, result = _run(capsys, *arguments)
    assert status == 1
    assert result["outputs"] == []
    return result["error"]


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("model", sorted(MODELS))
def test_outputs_are_pytorchs(capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str, board: str) -> None:
    with np.load(MODELS[model][".npz"]) as golden:
        arrays = dict(golden)
    inputs = []
    for i in range(sum(name.startswith("input_") for name in arrays)):
        np.save(tmp_path / f"{i}.npy", arrays[f"input_{i}"][0])
        inputs += ["--input", tmp_path / f"{i}.npy"]
    status, result = _run(capsys, MODELS[model][".pte"], "--board", board, *inputs, "--output-dir", tmp_path / "out")
    assert status == 0
    assert result["error"] is None
    (output,) = result["outputs"]
    expected = arrays["output_0"][0]
    assert output["dtype"] == {"float32": "Float", "int32": "Int"}[str(expected.dtype)]
    assert output["shape"] == list(expected.shape)
    actual = np.load(output["file"])
    assert Path(output["file"]) == tmp_path / "out/output_0.npy"
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=1e-5)
    assert result["arena"]["method"] > 0 and result["arena"]["planned"] > 0 and result["arena"]["temp"] >= 0
    counts = result["instructions"].values()
    assert all(count is None if board == "host" else count > 0 for count in counts)


@pytest.mark.parametrize("board", BOARDS)
def test_inputs_default_to_ones(capsys: pytest.CaptureFixture[str], board: str) -> None:
    status, result = _run(capsys, SOFTMAX, "--board", board)
    assert status == 0
    np.testing.assert_allclose(np.load(result["outputs"][0]["file"]), np.full((2, 2), 0.5), rtol=1e-6)


@pytest.mark.parametrize("board", ["host", BOARDS[-1]] if "host" in BOARDS else BOARDS[-1:])
def test_each_method_of_a_program_is_run(capsys: pytest.CaptureFixture[str], tmp_path: Path, board: str) -> None:
    codec = _files("CODEC")
    with np.load(codec[".npz"]) as golden:
        np.save(tmp_path / "x.npy", golden["input_0"][0])
        expected = golden["output_0"][0]

    def run(method: str, *given: Path) -> Path:
        inputs = [word for path in given for word in ("--input", path)]
        options = ["--method", method, "--board", board, "--output-dir", tmp_path / method]
        status, result = _run(capsys, codec[".pte"], *options, *inputs)
        assert status == 0
        return Path(result["outputs"][0]["file"])

    # forward() is the one after the other, with a gain of one.
    assert np.load(run("encode", tmp_path / "x.npy")).shape != expected.shape
    np.save(tmp_path / "gain.npy", np.ones(1, np.float32))
    decoded = run("decode", tmp_path / "encode/output_0.npy", tmp_path / "gain.npy")
    for path in (run("forward", tmp_path / "x.npy"), decoded):
        np.testing.assert_allclose(np.load(path), expected, atol=1e-5, rtol=1e-5)
    error = _error(capsys, codec[".pte"], "--method", "transcode", "--board", board)
    assert error["name"] == "InvalidArgument"
    assert "has no method transcode; give --method one of: " in error["message"]
    assert all(name in error["message"] for name in ("forward", "encode", "decode"))


def test_instructions_are_the_same_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [_run(capsys, SOFTMAX)[1] for _ in range(2)]
    assert runs[0]["instructions"] == runs[1]["instructions"]


def test_text_shows_the_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SOFTMAX)]) == 0
    output = capsys.readouterr().out
    assert "output 0: Float [2, 2]" in output and "0.5" in output and "instructions" in output


def _truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _other_version(data: bytes) -> bytes:
    return data[:4] + b"ET99" + data[8:]


def _unknown_operator(data: bytes) -> bytes:
    assert b"aten::_softmax" in data
    return data.replace(b"aten::_softmax", b"aten::_hardmax")


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(
    ("damage", "names"),
    [
        (lambda _: b"", None),
        (lambda _: b"no program", None),
        (lambda data: bytes(reversed(data)), None),
        (_truncated, None),
        (_other_version, {"NotSupported"}),
        (_unknown_operator, {"OperatorMissing"}),
    ],
)
def test_a_bad_program_has_an_error_with_a_name(capsys, tmp_path, board, damage, names) -> None:
    path = tmp_path / "bad.pte"
    path.write_bytes(damage(SOFTMAX.read_bytes()))
    error = _error(capsys, path, "--board", board)
    assert error["name"] in (names or {"InvalidProgram", "AccessFailed", "InvalidArgument"})
    assert len(error["message"]) > 10
    if names == {"OperatorMissing"}:
        assert error["message"].startswith("Torch Fusion has no kernel for operator aten::_hardmax.out; let ")


def test_a_missing_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    error = _error(capsys, tmp_path / "none.pte")
    assert error["name"] == "AccessFailed" and "none.pte" in error["message"]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2)), "input 0 is float64 [2, 2], but the program takes float32 [2, 2]"),
        (np.zeros((2, 3), np.float32), "input 0 is float32 [2, 3], but"),
        (np.zeros(4, np.float32), "input 0 is float32 [4], but"),
    ],
)
def test_an_input_that_does_not_fit(capsys, tmp_path, array, message) -> None:
    np.save(tmp_path / "x.npy", array)
    error = _error(capsys, SOFTMAX, "--input", tmp_path / "x.npy")
    assert error["name"] == "InvalidArgument" and message in error["message"]


def test_the_wrong_number_of_inputs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 2), np.float32))
    error = _error(capsys, SOFTMAX, *["--input", tmp_path / "x.npy"] * 2)
    assert error["name"] == "InvalidArgument" and "2 inputs given, but the program takes 1" in error["message"]


def test_an_input_file_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"text")
    assert "no .npy file" in _error(capsys, SOFTMAX, "--input", tmp_path / "x.npy")["message"]
    assert _error(capsys, SOFTMAX, "--input", tmp_path / "y.npy")["name"] == "AccessFailed"


def test_an_unknown_board(capsys: pytest.CaptureFixture[str]) -> None:
    error = _error(capsys, SOFTMAX, "--board", "arduino")
    assert "there is no runner for board arduino" in error["message"]


def test_an_output_directory_that_cannot_be_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert _error(capsys, SOFTMAX, "--output-dir", tmp_path / "file")["name"] == "AccessFailed"


def test_relative_paths_are_the_users(capsys, tmp_path, monkeypatch) -> None:
    (tmp_path / "own.pte").write_bytes(SOFTMAX.read_bytes())
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    status, result = _run(capsys, "own.pte", "--output-dir", "out")
    assert status == 0 and result["outputs"][0]["file"] == str(tmp_path / "out/output_0.npy")


def _through_the_runner(array: np.ndarray, scalar_type: int, order: tuple[int, ...]) -> Value:
    """Returns what a runner returns that gives an input back: header and bytes without the padding of inputs."""
    data = encode(array, scalar_type, order)
    header = 96
    nbytes = array.size * (2 if scalar_type == 15 else array.itemsize)
    return read_value(data[: header - 4] + data[header : header + nbytes], 0)[0]


@pytest.mark.parametrize(
    ("scalar_type", "dtype"),
    [
        (0, "uint8"),
        (1, "int8"),
        (2, "int16"),
        (3, "int32"),
        (4, "int64"),
        (5, "float16"),
        (6, "float32"),
        (7, "float64"),
        (11, "bool"),
        (27, "uint16"),
        (28, "uint32"),
        (29, "uint64"),
    ],
)
def test_every_dtype_and_dim_order_survives(scalar_type: int, dtype: str) -> None:
    array = np.arange(24).reshape(1, 2, 3, 4).astype(dtype)
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
        value = _through_the_runner(array, scalar_type, order)
        assert value.array.dtype == array.dtype
        np.testing.assert_array_equal(value.array, array)


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    # The spacing at 1 is 2**-7: 1 + 2**-8 and 1 + 3 * 2**-8 are halfway.
    array = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -2.5], np.float32)
    value = _through_the_runner(array, 15, (0,))
    assert value.dtype == "BFloat16"
    assert value.array.tolist() == [1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -2.5]
