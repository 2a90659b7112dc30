from pathlib import Path

import pytest

from tools.artifacts.profile.profile import Row, read_profile
from tools.quiet.console import UserError


def test_profile_of_another_tool(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text('[{"index": 1, "count": 3, "cycles": null}, {"index": 0, "count": 2, "cycles": 4}]')
    assert read_profile(path) == (Row(2, 4), Row(3, None))
    path.write_text('[{"delegate": 0}]')
    with pytest.raises(UserError, match="pass what a profile's --json writes"):
        read_profile(path)
