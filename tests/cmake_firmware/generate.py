"""Writes a header, as scripts of firmware projects do: `generate.py HEADER`."""

import sys
from pathlib import Path

Path(sys.argv[1]).write_text("#define GENERATED 1\n", encoding="utf-8")
