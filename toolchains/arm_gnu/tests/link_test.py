"""Tests the messages of link.sh for links that failed."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

_LINK = Path(os.environ["LINK"]).absolute()


@pytest.mark.parametrize("is_full", [False, True])
def test_a_full_disk_is_named_where_gcc_does_not(is_full: bool, tmp_path: Path) -> None:
    gcc = tmp_path / "gcc"
    gcc.write_text("#!/bin/sh\necho 'could not close response file' >&2\nexit 1\n")
    gcc.chmod(0o755)
    (tmp_path / "given").write_text("-o\nimage.elf\nmain.o\n")

    def full() -> None:
        if is_full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    result = subprocess.run(
        ["/bin/sh", str(_LINK), "@given"],
        cwd=tmp_path,
        env={"PATH": "/bin:/usr/bin", "TORCH_FUSION_TOOLS": str(tmp_path)},
        capture_output=True,
        text=True,
        preexec_fn=full,
        # Too large a write is an error then, and no signal.
        restore_signals=False,
        check=False,
    )
    says = ["image.elf: the disk is full; free some space, then build again"] if is_full else []
    assert result.returncode == 1
    assert result.stderr.splitlines() == ["could not close response file", *says]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gcc", "given"]
