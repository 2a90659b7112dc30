"""Tests that every replaced symbol exists in the installed releases, and that nothing else is replaced."""

from __future__ import annotations

import pytest
import torch

from tools.pipeline.export.upstream.gaps import GAPS, Gap, check_is_known
from tools.pipeline.export.upstream.replaced import replace, replaced


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.symbol)
def test_the_symbol_exists_and_is_replaced_by_that_name(gap: Gap) -> None:
    # A symbol that upstream has renamed or moved fails here, before any export does.
    check_is_known(*gap.resolve())


def test_what_is_not_in_the_table_is_not_replaced() -> None:
    for change in (lambda: replace(torch.fx.Graph, "lint", None), lambda: replaced(torch, "add", None).__enter__()):
        with pytest.raises(LookupError, match=r"upstream/gaps.py"):
            change()
    assert torch.fx.Graph.lint is not None and torch.add is not None
