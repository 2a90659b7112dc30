from pathlib import Path

from tools.verify.reproducibility.hashes import compute, differences, main, read, write


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


def test_hashes_that_cannot_be_recorded_are_one_line(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    arguments = ["--recorded", "none", "--update-command", "bazel run //:update", "--update"]
    programs = ["//m:a", "portable", str(tmp_path / "a.pte")]
    assert main([*arguments, "hashes.txt", *programs]) == 1
    assert capsys.readouterr().err == f"hashes: error: {tmp_path}/a.pte: No such file or directory\n"
    (tmp_path / "a.pte").write_bytes(b"program")
    (tmp_path / "full.txt").symlink_to("/dev/full")
    assert main([*arguments, "full.txt", *programs]) == 1
    assert capsys.readouterr().err == (
        f"hashes: error: {tmp_path}/full.txt: No space left on device; free some space, then start it again\n"
    )
    assert main([*arguments, "hashes.txt", *programs]) == 0
    assert read((tmp_path / "hashes.txt").read_text()) == compute(programs)
