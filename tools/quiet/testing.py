"""Helpers of tests of all packages."""

import os
from pathlib import Path


def given_file(variable: str, suffix: str) -> Path:
    """Returns the one file with an ending among those that a test's environment variable names."""
    (path,) = [Path(name) for name in os.environ[variable].split() if name.endswith(suffix)]
    return path
