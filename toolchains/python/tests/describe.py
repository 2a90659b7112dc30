"""Prints what python_test.py asserts of a `py_tool`, as JSON."""

import json
import os
import sys

import numpy
import torch

print(
    json.dumps(
        {
            "arguments": sys.argv[1:],
            "executable": sys.executable,
            "hash": hash("torch"),
            "numpy": numpy.__file__,
            "path": sys.path,
            "sum": torch.arange(4).sum().item(),
            "version": sys.version_info[:2],
            "library_path": os.environ.get("LD_LIBRARY_PATH"),
        }
    )
)
