import zipfile
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.golden.golden import Golden, golden_npz, read_golden
from tools.quiet.console import UserError


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "golden.npz"
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    golden = Golden((data,), (data + 1, data + 2), np.array([0, 1, 0]), (data, data), is_stream=True)
    path.write_bytes(golden_npz(golden))
    read = read_golden(path)
    assert read.samples == 3 and read.input_orders == () and read.is_stream
    for kind in ("inputs", "outputs", "eager"):
        assert all(map(np.array_equal, getattr(read, kind), getattr(golden, kind)))
    assert np.array_equal(read.labels, golden.labels)
    content = golden_npz(golden)
    assert golden_npz(read) == content
    # No member's header has an extra field, whose form differs between versions of Python.
    with zipfile.ZipFile(path) as file:
        assert all(content[each.header_offset + 28 :][:2] == b"\0\0" for each in file.infolist())


def test_golden_files_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "golden.npz"
    for arrays, message in (
        ({"version": 1, "input_0": np.zeros((1, 1))}, "no array output_0"),
        ({"input_0": np.zeros((1, 1)), "output_0": np.zeros((1, 1))}, "no array version"),
        ({"version": 2, "output_0": np.zeros((1, 1))}, "has version 2, and this is the tool for version 1"),
        ({"version": 1, "output_1": np.zeros((1, 1))}, "no golden file .KeyError: 'output_0'"),
        ({"version": 1, "input_0": np.zeros((1, 1)), "output_0": np.zeros((2, 1))}, "number of samples"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(UserError, match=message):
            read_golden(path)


def test_dim_orders_of_golden_files(tmp_path: Path) -> None:
    path = tmp_path / "golden.npz"
    image = np.arange(2 * 3 * 4, dtype=np.int8).reshape(2, 3, 4)
    orders = ((1, 0), (0, 1)), ((1, 0),)
    path.write_bytes(golden_npz(Golden((image, image), (image,), None, (), *orders)))
    golden = read_golden(path)
    first, second = golden.inputs_in_memory()
    assert np.array_equal(first, image.transpose(0, 2, 1))
    assert np.array_equal(second, image)
    assert np.array_equal(golden.outputs_from_memory(golden.outputs_in_memory())[0], image)
