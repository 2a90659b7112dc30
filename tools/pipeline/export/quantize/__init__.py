"""Quantization of captured programs.

ExecuTorch's Cortex-M backend is prepared before any module here imports it: see backends/cortex_m/dialect.py.
"""

# Imported by its full name: pytest imports a test's folder as a package of another name, which would prepare the wheel
# twice.
from tools.pipeline.export.backends.cortex_m import dialect as dialect
