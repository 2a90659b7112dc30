"""Walks over tensors visit the elements that NumPy's broadcasting brings together, in memory order of the output."""

import itertools

import numpy as np
import pytest

from tools.pipeline.compile.elementwise import broadcast_walk, walk
from tools.pipeline.compile.program import Shape

CASES = [
    # out, its order, inputs' sizes and orders, dims of the walk
    ((2, 3), (0, 1), [((2, 3), (0, 1)), ((2, 3), (0, 1))], 1),
    ((2, 3), (0, 1), [((2, 3), (0, 1)), ((3,), (0,))], 2),
    ((2, 3), (0, 1), [((2, 1), (0, 1)), ((), ())], 2),
    ((1, 4, 3, 5), (0, 2, 3, 1), [((1, 4, 3, 5), (0, 2, 3, 1)), ((1, 4, 1, 1), (0, 1, 2, 3))], 2),
    ((1, 4, 3, 5), (0, 1, 2, 3), [((1, 4, 3, 5), (0, 2, 3, 1)), ((1, 4, 3, 5), (0, 1, 2, 3))], 2),
    ((2, 3, 4, 5), (0, 1, 2, 3), [((2, 1, 4, 1), (0, 1, 2, 3)), ((3, 1, 5), (0, 1, 2))], 4),
    ((1, 1), (0, 1), [((1, 1), (0, 1)), ((1,), (0,))], 1),
]


@pytest.mark.parametrize(("sizes", "order", "inputs", "dims"), CASES)
def test_walks_are_numpys(sizes, order, inputs, dims) -> None:
    out = Shape("FLOAT", sizes, order)
    shapes = [Shape("FLOAT", *given) for given in inputs]
    made = broadcast_walk(out, shapes)
    assert made is not None
    assert len(made) == dims
    visited = [
        tuple(sum(at * dim.strides[array] for at, dim in zip(place, reversed(made), strict=True)) for array in range(2))
        for place in itertools.product(*(range(dim.size) for dim in reversed(made)))
    ]
    wanted = [
        # The address offset of each element of an input, by its index.
        np.broadcast_to(
            sum(
                (np.indices(shape.sizes)[i] * step for i, step in enumerate(shape.strides)), np.zeros(shape.sizes, int)
            ),
            sizes,
        )
        .transpose(order)
        .ravel()
        .tolist()
        for shape in shapes
    ]
    assert visited == list(zip(*wanted, strict=True))


def test_what_does_not_broadcast_has_no_walk() -> None:
    out = Shape("FLOAT", (2, 3), (0, 1))
    assert broadcast_walk(out, [out, Shape("FLOAT", (2,), (0,))]) is None
    assert broadcast_walk(out, [out, Shape("FLOAT", (1, 2, 3), (0, 1, 2))]) is None
    empty = Shape("FLOAT", (0, 3), (0, 1))
    assert broadcast_walk(empty, [empty, empty]) is None


def test_dims_that_lie_evenly_are_one() -> None:
    assert [dim.size for dim in walk((2, 3, 4), (0, 1, 2), [(12, 4, 1)])] == [24]
    assert [dim.size for dim in walk((2, 3, 4), (0, 1, 2), [(24, 4, 1)])] == [12, 2]
