"""Imports modules of ExecuTorch's own Cortex-M tests in the only order that works.

Their runner imports pandas, which nothing here calls: a table of executorch's profiler. And the wheel must be prepared
before any part of its backend is imported.
"""

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

if importlib.util.find_spec("pandas") is None:
    sys.modules["pandas"] = ModuleType("pandas")
    sys.modules["pandas"].DataFrame = object
    sys.modules["pandas"].__spec__ = ModuleSpec("pandas", None)

importlib.import_module("tools.pipeline.export.backends.cortex_m")
stages = importlib.import_module("executorch.backends.test.harness.stages")
target_config = importlib.import_module("executorch.backends.cortex_m.target_config")
tester = importlib.import_module("executorch.backends.cortex_m.test.tester")
