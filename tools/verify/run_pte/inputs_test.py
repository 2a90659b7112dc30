"""Inputs that no runner takes, before one is started."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tools.verify.run_pte.run_pte import RunError, _encode_tensor


@pytest.mark.parametrize(("sizes", "order"), [([1] * 17, None), ([2, 3], [0, 0]), ([2, -3], None)])
def test_a_shape_that_cannot_be_passed(sizes: list[int], order: list[int] | None) -> None:
    tensor = SimpleNamespace(scalar_type=6, sizes=sizes, dim_order=order, shape_dynamism=0)
    with pytest.raises(RunError, match=f"input 0 has {len(sizes)} dimensions .* at most 16 can be passed"):
        _encode_tensor(0, tensor, None)


def test_as_many_dimensions_as_can_be_passed() -> None:
    tensor = SimpleNamespace(scalar_type=6, sizes=[1] * 16, dim_order=None, shape_dynamism=0)
    assert _encode_tensor(0, tensor, None)
