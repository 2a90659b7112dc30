"""Quantized programs for the kernels of //kernels/cortex_m.

Whatever is imported of this package, the wheel is prepared first: see dialect.py.
"""

from . import dialect as dialect
