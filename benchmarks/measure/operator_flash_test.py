import json
from pathlib import Path

import pytest

from benchmarks.measure import operator_flash
from benchmarks.measure.operator_flash import LIMIT, kind_of, main


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::add.out", ""),
        ("aten::rsqrt.out", ""),
        ("aten::max_pool2d_with_indices.out", "pooling"),
        ("aten::convolution.out", "convolution"),
        ("aten::pow.Tensor_Scalar_out", "libm"),
        ("aten::logical_and.out", ""),
        ("aten::expand_copy.out", ""),
    ],
)
def test_what_may_take_more_than_the_limit(operator: str, kind: str) -> None:
    assert kind_of(operator) == kind


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int | None]) -> int:
    """Returns the status of a report on images of given sizes; None: of this operator no call is known."""
    images, selections = tmp_path / "images.json", tmp_path / "selections.json"
    images.write_text(json.dumps({operator: operator or "none" for operator in sizes}))
    selections.write_text(json.dumps({key: None if size is None else "float" for key, size in sizes.items() if key}))
    by_name = {operator or "none": size or 0 for operator, size in sizes.items()}
    foreign = {"aten::convolution.out": {"__aeabi_ldivmod": 100, "memcpy": 50}}
    monkeypatch.setattr(
        operator_flash,
        "read_image",
        lambda path: operator_flash.Image(
            by_name[path.name], {"memcpy": 50, **foreign.get(path.name, {})}, 300 if path.name == "none" else 310
        ),
    )
    return main(["report", "--images", str(images), "--selections", str(selections), "--json", str(tmp_path / "rows")])


def test_the_report_says_what_operators_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"": 4000, "aten::add.out": 4010 + LIMIT, "aten::convolution.out": 9000, "aten::own.out": None}
    assert run(tmp_path, monkeypatch, sizes) == 0
    assert json.loads((tmp_path / "rows").read_text()) == [
        {"operator": "aten::convolution.out", "own": 4890, "total": 5000, "kind": "convolution"},
        {"operator": "aten::add.out", "own": LIMIT, "total": LIMIT + 10, "kind": ""},
    ]
    assert "1 without a call to measure: aten::own.out" in capsys.readouterr().out


def test_a_broken_limit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch, {"": 4000, "aten::add.out": 4011 + LIMIT}) == 1
    assert f"1 over {LIMIT} bytes: aten::add.out" in capsys.readouterr().out


def test_what_is_no_image_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none").write_text("text")
    images, selections = tmp_path / "images.json", tmp_path / "selections.json"
    images.write_text(json.dumps({"": "none"}))
    selections.write_text("{}")
    assert main(["report", "--images", str(images), "--selections", str(selections)]) == 1
    assert "bazel build //benchmarks:operator_images" in capsys.readouterr().err
