"""An image that is not built for measuring has nothing of the profiler in it."""

from __future__ import annotations

import os
import re
from pathlib import Path

(IMAGE,) = [Path(name) for name in os.environ["IMAGE"].split() if name.endswith(".bin")]
APPLICATION = Path(os.environ["APPLICATION"])


def test_the_flash_of_an_image_without_profiling_has_no_profiler() -> None:
    source = APPLICATION.read_text(encoding="utf-8")
    texts = re.findall(r'console_text\("([^"\\]*)', source)
    flash = IMAGE.read_bytes()
    # What the profiler prints first; other texts of the application are there.
    assert "profile " in texts
    assert b"profile " not in flash
    assert sum(text.encode() in flash for text in texts if len(text) > 4) >= 3
