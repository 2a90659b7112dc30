"""Quantized programs for the kernels of //kernels/cortex_m.

Whatever is imported of this package, the wheel is prepared first: see dialect.py.
"""

# By its full name: pytest imports a test's folder as a package of another name, and the wheel is prepared once.
from tools.pipeline.export.backends.cortex_m import dialect as dialect
