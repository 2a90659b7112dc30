"""PyTorch's list of composite operators, without looking each of them up again and again.

Each decomposition of a program has PyTorch ask its dispatcher for all composite operators and look every one of them up
in torch.ops, once for each namespace there is: a tenth of what a small model's export takes. What was looked up once
stays there.
"""

from __future__ import annotations

import torch
import torch._export.utils

_materialized: set[str] = set()


def _materialize_new() -> None:
    """Does what PyTorch's function does, for operators that were registered since."""
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"):
        if name not in _materialized:
            namespace, _, operator = name.partition("::")
            operator, _, overload = operator.partition(".")
            getattr(getattr(getattr(torch.ops, namespace), operator), overload or "default")
            _materialized.add(name)


def look_up_once() -> None:
    """Lets PyTorch look up each composite operator once in this process."""
    torch._export.utils._materialize_cpp_cia_ops = _materialize_new
