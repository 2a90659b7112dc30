import os
import sys
from pathlib import Path

from tools.commands.plot.plot import main

# D3, which Plot needs, is the first.
_LIBRARIES = sorted(Path(os.environ["RUNFILES_DIR"]).glob("*npm_*/dist/*.min.js"))

sys.exit(main([*(f"--window={library}" for library in _LIBRARIES), *sys.argv[1:]]))
