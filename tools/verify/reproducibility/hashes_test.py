from pathlib import Path

from tools.verify.reproducibility.hashes import compute, differences, read, write


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"program")
    hashes = compute(["//m:a", "portable", str(tmp_path / "a"), "//m:b", "cortex-m4", str(tmp_path / "a")])
    assert read(write(hashes, "bazel run //:update")) == hashes
    assert differences(hashes, hashes) == []


def test_each_difference_is_named() -> None:
    recorded = {("//m:a", "portable"): "1" * 64, ("//m:b", "cortex-m4"): "2" * 64}
    computed = {("//m:a", "portable"): "3" * 64, ("//m:b", "cortex-m33"): "2" * 64}
    assert differences(recorded, computed) == [
        "//m:a for portable has sha256 3333333333333333..., recorded is 1111111111111111...",
        "//m:b for cortex-m33 is not recorded",
        "//m:b for cortex-m4 is recorded and not built",
    ]


def test_lines_left_by_a_merge_are_no_hashes() -> None:
    assert read("<<<<<<< HEAD\n# a comment\n" + "1" * 64 + " portable //m:a\n") == {("//m:a", "portable"): "1" * 64}
