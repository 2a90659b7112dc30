"""Quantized programs for the kernels of //kernels/cortex_m.

Importing any part of this package prepares the ExecuTorch wheel first: see dialect.py.
"""

# Imported by its full name: pytest imports a test's folder as a package of another name, which would prepare the wheel
# twice.
from tools.pipeline.export.backends.cortex_m import dialect as dialect
