"""Every symbol that is replaced exists in the installed releases, and nothing else is replaced."""

from __future__ import annotations

import functools
import importlib

import pytest
import torch

from tools.pipeline.export.upstream.gaps import GAPS, Gap
from tools.pipeline.export.upstream.replaced import replace, replaced


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.symbol)
def test_the_symbol_exists_where_its_class_is_from(gap: Gap) -> None:
    # What upstream has renamed or mended is an error here, with its name, before any export fails.
    gap.resolve()
    module, _, path = gap.symbol.partition(":")
    owner = functools.reduce(getattr, path.split(".")[:-1], importlib.import_module(module))
    # By that module, and not by one that imports the class, replaced() looks for it.
    assert not isinstance(owner, type) or owner.__module__ == module


def test_what_is_not_in_the_table_is_not_replaced() -> None:
    for change in (lambda: replace(torch.fx.Graph, "lint", None), lambda: replaced(torch, "add", None).__enter__()):
        with pytest.raises(LookupError, match=r"upstream/gaps.py"):
            change()
    assert torch.fx.Graph.lint is not None and torch.add is not None
